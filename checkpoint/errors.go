package checkpoint

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrInUse says that another process, or another Store of this one, has the folder open.
	ErrInUse = errors.New("in use by another process")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("the checkpoint store is closed")
	// ErrReadOnly says that the store was opened to be read.
	ErrReadOnly = errors.New("the checkpoint store is open for reading only")
	// ErrUnknown says that there is no such checkpoint, or that it is not kept any more.
	ErrUnknown = errors.New("no such checkpoint")
	// ErrUsed says that a number cannot be written, since it was used before.
	ErrUsed = errors.New("the checkpoint number was used before")
)

// DamageError says that something stored is not what was written. Nothing that it concerns was handed out beyond the
// chunks already seen, and the checkpoint must be taken from another copy, or an older one be used.
type DamageError struct {
	// Dir is the folder of the store, or the file for an exported checkpoint.
	Dir string
	// File is the file in it, relative to Dir; empty if it is not known.
	File string
	// Offset is the place in the file, -1 if it is not known.
	Offset int64
	// Number, Part, Region and Chunk say whose data it is; Number is 0 and the others -1 where they do not apply.
	Number              uint64
	Part, Region, Chunk int
	// Detail says what is wrong.
	Detail string
}

func (e *DamageError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "checkpoint data in %s is damaged: ", e.Dir)
	if e.File != "" {
		fmt.Fprintf(&b, "file %s: ", e.File)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, "at byte %d: ", e.Offset)
	}
	if e.Number != 0 {
		fmt.Fprintf(&b, "checkpoint %d", e.Number)
		if e.Part >= 0 {
			fmt.Fprintf(&b, ", part %d", e.Part)
		}
		if e.Region >= 0 {
			fmt.Fprintf(&b, ", region %d", e.Region)
		}
		if e.Chunk >= 0 {
			fmt.Fprintf(&b, ", chunk %d", e.Chunk)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Detail)
	return b.String()
}

// damaged returns a DamageError that concerns the folder as a whole or a file of it.
func damaged(dir, file, format string, a ...any) *DamageError {
	return &DamageError{Dir: dir, File: file, Offset: -1, Part: -1, Region: -1, Chunk: -1, Detail: fmt.Sprintf(format, a...)}
}

// FullError says that the disk has no room for a checkpoint. What is stored is unharmed; it may be tried again.
type FullError struct {
	Dir string
	// What is short: "bytes", "inodes" or "descriptors".
	What string
	// Need is what must be free, the reserve included; Free is what is.
	Need, Free uint64
}

func (e *FullError) Error() string {
	if e.What == "bytes" {
		return fmt.Sprintf("no room for a checkpoint in %s: %.1f MiB must be free on the disk, %.1f MiB are; free some space, or keep fewer checkpoints", e.Dir, float64(e.Need)/(1<<20), float64(e.Free)/(1<<20))
	}
	return fmt.Sprintf("no room for a checkpoint in %s: %d %s must be free, %d are", e.Dir, e.Need, e.What, e.Free)
}

// IdentityError says that the folder belongs to something else. Nothing in it was changed.
type IdentityError struct {
	Dir string
	// What differs: "format", "job" or "node"; Have is what the folder has, Want what was asked for.
	What, Have, Want string
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("checkpoint folder %s is of %s %q, not %q: use the folder that belongs to it, or an empty one", e.Dir, e.What, e.Have, e.Want)
}

// StaleError says that the folder is an old copy: it lacks checkpoints that are known to have been committed.
type StaleError struct {
	Dir string
	// Newest is the newest checkpoint that the folder has, AtLeast the one it must have.
	Newest, AtLeast uint64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("checkpoint folder %s is out of date: its newest checkpoint is %d, but %d was committed; use another copy", e.Dir, e.Newest, e.AtLeast)
}
