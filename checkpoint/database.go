package checkpoint

import (
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

const (
	defaultMemory  = 64 << 20
	defaultReserve = 256 << 20
	// A memtable holds at least minMemtable bytes: a transaction takes 15 % of it, and a piece must fit into that.
	minMemtable = 4 << 20
	maxMemtable = 64 << 20
	// maxPiece is the largest value handed to the database, in bytes; larger chunks are split.
	maxPiece = 128 << 10
)

// memtableFor returns the size of a memtable so that the database stays within memory. It holds up to three, a table
// that is built, indices up to an eighth, and what waits to be written.
func memtableFor(memory int64) int64 {
	return max(minMemtable, min(maxMemtable, memory/16))
}

// openDatabase opens Badger. It turns a panic on this goroutine into an error.
func openDatabase(dir string, memory int64, readOnly bool, log *slog.Logger) (db *badger.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("the database panics: %v", r)
		}
	}()
	memtable := memtableFor(memory)
	o := badger.DefaultOptions(filepath.Join(dir, dbName))
	o.Logger = badgerLog{log}
	o.ReadOnly = readOnly
	o.SyncWrites = true
	o.NumVersionsToKeep = 1
	o.DetectConflicts = false
	o.MetricsEnabled = false
	o.Compression = options.None
	o.BlockCacheSize = 0
	o.IndexCacheSize = max(1<<20, memory/8)
	o.BlockSize = 16 << 10
	o.MemTableSize = memtable
	o.BaseTableSize = memtable / 2
	o.NumMemtables = 2
	o.ValueThreshold = 2 * maxPiece // all values stay in the tables: there is no value log to be collected
	o.ValueLogFileSize = 1 << 20
	o.ChecksumVerificationMode = options.OnTableAndBlockRead
	o.BypassLockGuard = true // the folder has a lock of its own
	// No compaction in the background: compact runs it where space can be checked, from level 0 into the only other.
	// Nothing else empties level 0, so that writing must never wait for it.
	o.MaxLevels = 2
	o.NumCompactors = 0
	o.NumLevelZeroTablesStall = math.MaxInt32
	db, err = badger.OpenManaged(o)
	if err != nil {
		return nil, err
	}
	if !readOnly {
		// Keys are written once and removed once, and nothing is removed that is being read.
		db.SetDiscardTs(math.MaxUint64 - 1)
	}
	return db, nil
}

// badgerLog passes what matters of Badger's log on.
type badgerLog struct{ log *slog.Logger }

func (b badgerLog) Errorf(f string, a ...any) {
	b.log.Error("checkpoint database: " + strings.TrimSpace(fmt.Sprintf(f, a...)))
}

func (b badgerLog) Warningf(f string, a ...any) {
	b.log.Warn("checkpoint database: " + strings.TrimSpace(fmt.Sprintf(f, a...)))
}
func (badgerLog) Infof(string, ...any)  {}
func (badgerLog) Debugf(string, ...any) {}
