package checkpoint

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

func freeSpace(dir string) (bytes, inodes uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	inodes = st.Ffree
	if st.Files == 0 { // a file system without a number of inodes
		inodes = math.MaxUint64
	}
	return st.Bavail * uint64(st.Bsize), inodes, nil
}

// allocate makes f size bytes long, all of them on the disk.
func allocate(f *os.File, size int64) error {
	return unix.Fallocate(int(f.Fd()), 0, 0, size)
}
