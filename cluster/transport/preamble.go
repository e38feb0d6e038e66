package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/simnode/simnode/cluster/link"
)

// A connection begins with a preamble each way: four bytes that say it is simnode, the version (in the same
// place in every version), a byte, and a few texts, each after its length in one byte. The byte is the kind
// of stream from the side that dialled, and in return 0 for welcome or 1 for a refusal.

// ErrRefused is a connection that the other side refused; the error says why.
var ErrRefused = errors.New("refused by the other side")

const (
	preambleMagic = "SIMN"
	preambleHead  = len(preambleMagic) + 4 + 1
	// maxReason cuts a refusal's text so that it fits.
	maxReason = 255
)

// preamble as the dialling side sends it.
type preamble struct {
	version uint32
	kind    byte
	cluster string
	// from is the node that dials, to the one it wants to reach; empty: whoever is there.
	from, to string
}

func (p *preamble) append(b []byte) []byte {
	return appendPreamble(b, p.version, p.kind, p.cluster, p.from, p.to)
}

// answer to a preamble.
type answer struct {
	version uint32
	// refused says why, empty if it is not.
	refused string
	name    string
}

func (a *answer) append(b []byte) []byte {
	if a.refused != "" {
		return appendPreamble(b, a.version, 1, a.refused[:min(len(a.refused), maxReason)])
	}
	return appendPreamble(b, a.version, 0, a.name)
}

func appendPreamble(b []byte, version uint32, k byte, texts ...string) []byte {
	b = append(b, preambleMagic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = append(b, k)
	for _, t := range texts {
		b = append(b, byte(len(t)))
		b = append(b, t...)
	}
	return b
}

// readHead reads what comes before the texts.
func readHead(r io.Reader) (version uint32, k byte, err error) {
	var b [preambleHead]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, 0, fmt.Errorf("no preamble: %w", err)
	}
	if string(b[:len(preambleMagic)]) != preambleMagic {
		return 0, 0, fmt.Errorf("%w: %q is not how a connection of simnode begins", link.ErrFrame, b[:len(preambleMagic)])
	}
	return binary.LittleEndian.Uint32(b[len(preambleMagic):]), b[preambleHead-1], nil
}

func readTexts(r io.Reader, texts ...*string) error {
	var b [255]byte
	for _, t := range texts {
		if _, err := io.ReadFull(r, b[:1]); err != nil {
			return fmt.Errorf("a preamble that ends early: %w", err)
		}
		n := b[0]
		if _, err := io.ReadFull(r, b[:n]); err != nil {
			return fmt.Errorf("a preamble that ends early: %w", err)
		}
		*t = string(b[:n])
	}
	return nil
}

// readPreamble reads the preamble of a side that dialled. It reads no further than the head if the version
// is not the one given: what follows may be anything.
func readPreamble(r io.Reader, version uint32) (p preamble, err error) {
	if p.version, p.kind, err = readHead(r); err != nil || p.version != version {
		return p, err
	}
	return p, readTexts(r, &p.cluster, &p.from, &p.to)
}

// readAnswer reads the answer to a preamble. A refusal is an error.
func readAnswer(r io.Reader, self link.Identity) (name string, err error) {
	version, status, err := readHead(r)
	if err != nil {
		return "", err
	}
	if version != self.Version {
		return "", fmt.Errorf("%w: the other side speaks version %d, this node (%s) version %d; run the same release on both",
			link.ErrVersion, version, self.Name, self.Version)
	}
	if err := readTexts(r, &name); err != nil {
		return "", err
	}
	if status != 0 {
		return "", fmt.Errorf("%w: %s", ErrRefused, printable(name))
	}
	return name, nil
}

// printable makes text of strangers safe to print, without quotes, since it stands in an error.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, text)
}

// check refuses a preamble that is not meant for self.
func (p *preamble) check(self link.Identity) error {
	switch {
	case p.version != self.Version:
		return fmt.Errorf("%w: it speaks version %d, this node (%s) version %d; run the same release on both",
			link.ErrVersion, p.version, self.Name, self.Version)
	case p.cluster != self.Cluster:
		return fmt.Errorf("%w: %s belongs to cluster %q, this node (%s) to %q", link.ErrCluster, p.from, p.cluster, self.Name, self.Cluster)
	case p.from == "":
		return fmt.Errorf("%w: it does not say its name", link.ErrName)
	case p.to != "" && p.to != self.Name:
		return fmt.Errorf("%w: %s wants to reach %q, this is %q", link.ErrName, p.from, p.to, self.Name)
	}
	return nil
}
