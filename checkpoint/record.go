package checkpoint

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime/debug"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// A record is a value under one of the keys that are not chunks. One larger than a piece continues under the same key
// with the number of the piece behind it; the first piece is written last, so that a record is there whole or not.

// recordKeyLen are the lengths of the keys of records.
func recordKeyLen(kind byte) int {
	if kind == keyManifest {
		return 1 + 8
	}
	return incrementPrefix
}

// setRecord writes a record, durable on return.
func (s *Store) setRecord(version uint64, key, value []byte) error {
	first, rest := value[:min(len(value), maxPiece)], value[min(len(value), maxPiece):]
	if len(rest) > 0 {
		batch := s.db.NewWriteBatchAt(version)
		defer batch.Cancel()
		for piece := uint16(1); len(rest) > 0; piece++ {
			n := min(len(rest), maxPiece)
			if err := batch.Set(binary.BigEndian.AppendUint16(slices.Clone(key), piece), rest[:n]); err != nil {
				return s.fail(err)
			}
			rest = rest[n:]
		}
		if err := batch.Flush(); err != nil {
			return s.fail(err)
		}
	}
	return s.set(version, key, first)
}

// set writes one key, durable on return.
func (s *Store) set(version uint64, key, value []byte) error {
	txn := s.db.NewTransactionAt(version, true)
	defer txn.Discard()
	if err := txn.Set(key, value); err != nil {
		return s.fail(err)
	}
	return s.fail(txn.CommitAt(version, nil))
}

// records calls f with the key and value of each record of a kind, in order, as they are at the newest version.
func (s *Store) records(kind byte, f func(key, value []byte) error) (err error) {
	defer guard(&err, s.dir)()
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(keysOnly([]byte{kind}))
	defer it.Close()
	var key, value []byte
	for it.Rewind(); it.Valid(); it.Next() {
		k := it.Item().KeyCopy(nil)
		switch n := recordKeyLen(kind); {
		case len(k) == n:
			if key != nil {
				if err := f(key, value); err != nil {
					return err
				}
			}
			key, value = k, nil
		case len(k) != n+2:
			return damaged(s.dir, "", "a record has a key of %d bytes", len(k))
		case !bytes.Equal(key, k[:n]):
			continue // the first piece was never written
		}
		v, err := it.Item().ValueCopy(nil)
		if err != nil {
			return damaged(s.dir, "", "%v", err)
		}
		value = append(value, v...)
	}
	if key != nil {
		return f(key, value)
	}
	return nil
}

func keysOnly(prefix []byte) badger.IteratorOptions {
	o := badger.DefaultIteratorOptions
	o.Prefix = prefix
	o.PrefetchValues = false
	return o
}

// guard is deferred, called, by what reads from the database: it turns a panic into a *DamageError, and so too a fault
// of the disk under the memory that the database maps.
func guard(err *error, dir string) func() {
	faults := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(faults)
		if r := recover(); r != nil {
			*err = damaged(dir, "", "the database panics: %v", r)
		}
	}
}

// remove deletes all keys with one of the prefixes, in their order, durably.
func (s *Store) remove(prefixes ...[]byte) error {
	if len(prefixes) == 0 {
		return nil
	}
	batch := s.db.NewWriteBatchAt(s.Next()) // above the version of any key
	defer batch.Cancel()
	for _, prefix := range prefixes {
		if err := s.room(s.reserve / 4); err != nil {
			return err
		}
		keys, err := s.keys(prefix, math.MaxInt)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := batch.Delete(k); err != nil {
				return s.fail(err)
			}
		}
	}
	return s.fail(batch.Flush())
}

// keys returns the keys with a prefix, at most a number of them.
func (s *Store) keys(prefix []byte, most int) (keys [][]byte, err error) {
	defer guard(&err, s.dir)()
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(keysOnly(prefix))
	defer it.Close()
	for it.Rewind(); it.Valid() && len(keys) < most; it.Next() {
		keys = append(keys, it.Item().KeyCopy(nil))
	}
	return keys, nil
}
