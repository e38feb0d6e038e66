package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/simnode/simnode/control"
)

// meta is what a node tells of itself in gossip.
type meta struct {
	version int // of the protocol; stands first in every version
	boot    string
	role    control.Role
	workers int
	api     string
	// release is that of the program, for people.
	release string
	// leaving says that it goes for good, stopping that it ends and may come back.
	leaving, stopping bool
	// running says that it takes part in the log; a node that does not waits to be invited. instance
	// counts how often it began to in this process.
	running  bool
	instance uint64
	// formation is the cluster it belongs to as founded, 0 if it does not know; founded says that
	// commands are taken there.
	formation uint64
	founded   bool
	// term in which it leads, 0 if it does not.
	term uint64
}

const (
	maxMeta = 512 // memberlist's limit
	maxBoot = 64
	maxAPI  = 200
	// maxRelease is how much of the release is told.
	maxRelease = 64
)

var roles = []control.Role{control.Both, control.Coordinates, control.Works}

// append encodes m: 3 texts of at most 64, 200 and 64 bytes and less than 60 bytes besides.
func (m *meta) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(m.version))
	flags := byte(0)
	for i, on := range []bool{m.leaving, m.running, m.founded, m.stopping} {
		if on {
			flags |= 1 << i
		}
	}
	role := byte(0)
	for i, r := range roles {
		if r == m.role {
			role = byte(i)
		}
	}
	b = append(b, flags, role)
	for _, v := range []uint64{uint64(m.workers), m.instance, m.formation, m.term} {
		b = binary.AppendUvarint(b, v)
	}
	for _, s := range []string{m.boot, m.api, m.release} {
		b = append(b, byte(len(s)))
		b = append(b, s...)
	}
	return b
}

var errMeta = errors.New("metadata is malformed")

// parseMeta decodes metadata. Of another version it decodes the version only.
func parseMeta(b []byte, version int) (m meta, err error) {
	if len(b) > maxMeta {
		return m, fmt.Errorf("%w: %d bytes, at most %d", errMeta, len(b), maxMeta)
	}
	v, n := binary.Uvarint(b)
	if n <= 0 || v > 1<<30 {
		return m, fmt.Errorf("%w: no version", errMeta)
	}
	m.version = int(v)
	if m.version != version {
		return m, nil
	}
	b = b[n:]
	if len(b) < 2 || b[0] > 15 || int(b[1]) >= len(roles) {
		return m, fmt.Errorf("%w: flags or role", errMeta)
	}
	m.leaving, m.running, m.founded, m.stopping = b[0]&1 != 0, b[0]&2 != 0, b[0]&4 != 0, b[0]&8 != 0
	m.role = roles[b[1]]
	b = b[2:]
	var workers uint64
	for _, to := range []*uint64{&workers, &m.instance, &m.formation, &m.term} {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return m, fmt.Errorf("%w: it ends early", errMeta)
		}
		*to, b = v, b[n:]
	}
	if workers > 1<<20 {
		return m, fmt.Errorf("%w: %d workers", errMeta, workers)
	}
	m.workers = int(workers)
	for _, f := range []struct {
		to  *string
		max int
	}{{&m.boot, maxBoot}, {&m.api, maxAPI}, {&m.release, maxRelease}} {
		if len(b) == 0 || int(b[0]) > f.max || len(b) < 1+int(b[0]) {
			return m, fmt.Errorf("%w: a text ends early or is too long", errMeta)
		}
		*f.to, b = string(b[1:1+int(b[0])]), b[1+int(b[0]):]
	}
	if len(b) != 0 || m.boot == "" {
		return m, fmt.Errorf("%w: %d bytes follow, boot id %q", errMeta, len(b), m.boot)
	}
	return m, nil
}
