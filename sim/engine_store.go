package sim

import (
	"fmt"
	"reflect"
	"unsafe"
)

const (
	pageShift = 8
	pageSize  = 1 << pageShift
)

// Store holds the states of one kind in one region: pages of 256 states, so that a state never moves
// while its entity stays in the region. Not safe for concurrent use.
type Store struct {
	pages []unsafe.Pointer
	size  uintptr
	used  uint32
	free  []uint32
	kind  *KindInfo
}

// NewStore returns an empty store of the kind.
func (k *KindInfo) NewStore() *Store { return &Store{size: k.size, kind: k} }

// At returns the state at index i. It is inlined in the event loop.
func (s *Store) At(i uint32) unsafe.Pointer {
	return unsafe.Add(s.pages[i>>pageShift], uintptr(i&(pageSize-1))*s.size)
}

// Add makes room for a state and returns its index. The state is zero.
func (s *Store) Add() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	if s.used&(pageSize-1) == 0 {
		s.pages = append(s.pages, s.kind.newPage())
	}
	s.used++
	return s.used - 1
}

// Free gives the index back and clears the state.
func (s *Store) Free(i uint32) {
	s.kind.codec.clear(s.At(i))
	s.free = append(s.free, i)
}

// Take moves the state at index i of another store of the same kind here and returns its new index.
func (s *Store) Take(from *Store, i uint32) uint32 {
	j := s.Add()
	s.kind.codec.move(s.At(j), from.At(i))
	from.Free(i)
	return j
}

// Append appends the canonical encoding of the state at index i.
func (s *Store) Append(dst []byte, i uint32) []byte { return s.kind.codec.append(dst, s.At(i)) }

// Text shows the state at index i to people.
func (s *Store) Text(i uint32) string {
	return fmt.Sprintf("%+v", reflect.NewAt(s.kind.codec.typ, s.At(i)).Elem())
}

// Load replaces the state at index i by what Append wrote.
func (s *Store) Load(i uint32, data []byte) error {
	rest, err := s.kind.codec.load(s.At(i), data)
	if err != nil {
		return fmt.Errorf("state of kind %s: %w", s.kind.Name, err)
	}
	if len(rest) > 0 {
		return fmt.Errorf("state of kind %s: %d bytes too many", s.kind.Name, len(rest))
	}
	return nil
}
