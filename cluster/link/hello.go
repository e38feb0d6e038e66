package link

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Identity names one end of a link.
type Identity struct {
	// Cluster that the node belongs to; Name of the node in it. 1 to 255 bytes each.
	Cluster, Name string
	// Boot tells processes of one name apart: random, drawn when the process starts. 1 to 255 bytes.
	Boot string
	// Session tells sessions of one process with the same peer apart.
	Session uint64
	// Version of the protocol, of this and all layers above it.
	Version uint32
}

// Check reports what is missing or too long.
func (id Identity) Check() error {
	var errs []error
	for _, f := range []struct{ what, text string }{{"cluster name", id.Cluster}, {"node name", id.Name}, {"boot id", id.Boot}} {
		if len(f.text) == 0 || len(f.text) > 255 {
			errs = append(errs, fmt.Errorf("%s of %d bytes, 1 to 255 expected", f.what, len(f.text)))
		}
	}
	return errors.Join(errs...)
}

// end is which process, and which session of it, is at one end.
type end struct {
	boot    string
	session uint64
}

func (e end) String() string { return fmt.Sprintf("%s/%d", e.boot, e.session) }

// token marks frames from one end to another. FNV-1a, 64 bits.
func token(from, to end) uint64 {
	h := uint64(14695981039346656037)
	for _, e := range [2]end{from, to} {
		var fixed [9]byte
		fixed[0] = byte(len(e.boot))
		binary.LittleEndian.PutUint64(fixed[1:], e.session)
		for _, b := range fixed {
			h = (h ^ uint64(b)) * 1099511628211
		}
		for i := range len(e.boot) {
			h = (h ^ uint64(e.boot[i])) * 1099511628211
		}
	}
	return h
}

// hello is what two sessions get to know each other by.
type hello struct {
	from Identity
	// to is the end that it is meant for, as far as known; toName its node.
	toName string
	to     end
	// number is to be echoed; echo is the number of the other end's hello.
	number, echo uint64
	// received is up to which number the data frames of to have been received.
	received uint64
	// asks for a hello in return.
	asks bool
}

const helloMagic = "simnode link\n"

// append encodes h. The version stands in the same place in every version of the protocol.
func (h *hello) append(b []byte) []byte {
	b = append(b, helloMagic...)
	b = binary.LittleEndian.AppendUint32(b, h.from.Version)
	for _, s := range [...]string{h.from.Cluster, h.from.Name, h.from.Boot, h.toName, h.to.boot} {
		b = append(b, byte(len(s)))
		b = append(b, s...)
	}
	for _, n := range [...]uint64{h.from.Session, h.to.session, h.number, h.echo, h.received} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	if h.asks {
		return append(b, 1)
	}
	return append(b, 0)
}

// parseHello decodes a hello. Of another version only the version is decoded, and no more is expected of it.
func parseHello(b []byte, version uint32) (h hello, err error) {
	if len(b) < len(helloMagic)+4 || string(b[:len(helloMagic)]) != helloMagic {
		return h, fmt.Errorf("%w: not a hello of simnode", ErrFrame)
	}
	b = b[len(helloMagic):]
	h.from.Version = binary.LittleEndian.Uint32(b)
	if h.from.Version != version {
		return h, nil
	}
	b = b[4:]
	for _, s := range [...]*string{&h.from.Cluster, &h.from.Name, &h.from.Boot, &h.toName, &h.to.boot} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return h, fmt.Errorf("%w: a hello that ends early", ErrFrame)
		}
		*s, b = string(b[1:1+int(b[0])]), b[1+int(b[0]):]
	}
	numbers := [...]*uint64{&h.from.Session, &h.to.session, &h.number, &h.echo, &h.received}
	if len(b) != 8*len(numbers)+1 || b[len(b)-1] > 1 {
		return h, fmt.Errorf("%w: a hello with %d bytes of numbers, %d expected", ErrFrame, len(b), 8*len(numbers)+1)
	}
	for _, n := range numbers {
		*n, b = binary.LittleEndian.Uint64(b), b[8:]
	}
	h.asks = b[0] == 1
	if err := h.from.Check(); err != nil {
		return h, fmt.Errorf("%w: %v", ErrFrame, err)
	}
	return h, nil
}
