package logstore

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
)

// memDisk is a Disk in memory that forgets, fails, fills up and hangs as told.
type memDisk struct {
	mu    sync.Mutex
	files map[string]*memFile
	made  map[string]bool // names whose creation is durable
	gone  map[string]*memFile

	ops     int   // operations that change something, so far
	crashAt int   // the operation at which the machine dies; 0 for never
	limit   int64 // room in bytes; 0 for any
	failOp  int   // the operation that fails
	failErr error
	hang    chan struct{} // every sync waits for it if set
}

type memFile struct {
	d       *memDisk
	name    string
	data    []byte // as the process sees it
	durable []byte // as of the last sync
	pending []pending
}

// pending is a write that was not synced.
type pending struct {
	at   int64
	data []byte
	size int64 // of a truncation; -1
}

var errCrash = fmt.Errorf("the machine is dead")

func newMemDisk() *memDisk {
	return &memDisk{files: map[string]*memFile{}, made: map[string]bool{}, gone: map[string]*memFile{}}
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// step counts an operation; mu is held.
func (d *memDisk) step(op, name string) error {
	d.ops++
	if d.crashAt > 0 && d.ops >= d.crashAt {
		return errCrash
	}
	if d.failOp > 0 && d.ops == d.failOp {
		return pathError(op, name, d.failErr)
	}
	return nil
}

func (d *memDisk) Path(name string) string { return "mem/" + name }

func (d *memDisk) Open(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	if f == nil {
		if err := d.step("open", name); err != nil {
			return nil, err
		}
		f = &memFile{d: d, name: name}
		d.files[name] = f
	}
	return f, nil
}

func (d *memDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step("remove", name); err != nil {
		return err
	}
	if d.files[name] == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if d.made[name] {
		d.gone[name] = d.files[name]
	}
	delete(d.files, name)
	return nil
}

func (d *memDisk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

func (d *memDisk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step("sync", "."); err != nil {
		return err
	}
	for name := range d.files {
		d.made[name] = true
	}
	for name := range d.gone {
		if d.files[name] == nil {
			delete(d.made, name)
		}
	}
	clear(d.gone)
	return nil
}

// restart is the disk after the crash: what was not synced is there, or not, or in part.
func (d *memDisk) restart(rnd *rand.Rand) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := newMemDisk()
	names := make([]string, 0, len(d.files))
	for name := range d.files {
		names = append(names, name)
	}
	for name := range d.gone {
		if d.files[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		f := d.files[name]
		if f == nil {
			if f = d.gone[name]; rnd.IntN(2) == 0 {
				continue
			}
		} else if !d.made[name] && rnd.IntN(2) == 0 {
			continue
		}
		data := slices.Clone(f.durable)
		for _, p := range f.pending {
			data = p.tear(data, rnd)
		}
		next.files[name] = &memFile{d: next, name: name, data: data, durable: slices.Clone(data)}
		next.made[name] = true
	}
	return next
}

// tear applies a write sector by sector, each or not.
func (p pending) tear(data []byte, rnd *rand.Rand) []byte {
	if p.size >= 0 {
		if rnd.IntN(2) == 0 {
			return resize(data, p.size)
		}
		return data
	}
	for at := p.at; at < p.at+int64(len(p.data)); {
		end := min((at/512+1)*512, p.at+int64(len(p.data)))
		if rnd.IntN(2) == 0 {
			data = resize(data, max(int64(len(data)), end))
			copy(data[at:end], p.data[at-p.at:end-p.at])
		}
		at = end
	}
	return data
}

func resize(data []byte, size int64) []byte {
	if int64(len(data)) >= size {
		return data[:size:size]
	}
	return append(data, make([]byte, size-int64(len(data)))...)
}

func (f *memFile) ReadAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if at >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[at:])
	if n < len(b) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	p := pending{at: at, data: slices.Clone(b), size: -1}
	if err := f.d.step("write", f.name); err != nil {
		f.pending = append(f.pending, p)
		return 0, err
	}
	if room := f.d.room(); f.d.limit > 0 && at+int64(len(b)) > int64(len(f.data))+room {
		n := int64(len(f.data)) + room - at
		f.put(pending{at: at, data: slices.Clone(b[:max(n, 0)]), size: -1})
		return int(max(n, 0)), pathError("write", f.name, syscall.ENOSPC)
	}
	f.put(p)
	return len(b), nil
}

func (f *memFile) put(p pending) {
	f.data = resize(f.data, max(int64(len(f.data)), p.at+int64(len(p.data))))
	copy(f.data[p.at:], p.data)
	f.pending = append(f.pending, p)
}

func (d *memDisk) room() int64 {
	room := d.limit
	for _, f := range d.files {
		room -= int64(len(f.data))
	}
	return room
}

func (f *memFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step("truncate", f.name); err != nil {
		return err
	}
	f.data = resize(f.data, size)
	f.pending = append(f.pending, pending{size: size})
	return nil
}

func (f *memFile) Sync() error {
	if f.d.hang != nil {
		<-f.d.hang
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step("sync", f.name); err != nil {
		return err
	}
	f.durable = slices.Clone(f.data)
	f.pending = nil
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return int64(len(f.data)), nil
}

func (f *memFile) Close() error { return nil }
