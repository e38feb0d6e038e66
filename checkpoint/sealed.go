package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxSealed bounds what is read of a sealed file, in bytes.
const maxSealed = 256 << 20

// The name of an unfinished file ends so; it is removed when the folder is opened.
const unfinished = ".tmp"

// seal returns the text of a sealed file: one line with the kind and the SHA-256 of the rest, which is JSON.
func seal(kind string, v any) ([]byte, error) {
	body, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	return append(fmt.Appendf(nil, "%s%x\n", sealedLine(kind), sha256.Sum256(body)), body...), nil
}

func sealedLine(kind string) string { return "simnode checkpoints, " + kind + ", sha256 " }

// unseal decodes what seal made.
func unseal(kind string, text []byte, v any) error {
	line, body, ok := bytes.Cut(text, []byte{'\n'})
	sum, isSealed := strings.CutPrefix(string(line), sealedLine(kind))
	if !ok || !isSealed {
		return errors.New("the first line is not that of such a file")
	}
	if sum != fmt.Sprintf("%x", sha256.Sum256(body)) {
		return errors.New("the content does not have the SHA-256 of the first line")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(v); err != nil {
		return err
	}
	return nil
}

// writeSealed writes a sealed file so that a crash leaves the old one or the new one, and makes it durable.
func (d *Disk) writeSealed(dir, name string, v any) error {
	text, err := seal(name, v)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = d.sync(f)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(path+unfinished, path)
	}
	if err != nil {
		_ = os.Remove(path + unfinished)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return d.syncDir(dir)
}

func (d *Disk) syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := d.sync(f); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}

// readSealed reads a sealed file; what is wrong with it is a *DamageError, unless it cannot be read at all.
func readSealed(dir, name string, v any) error {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(dir, name, "the file is missing")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSealed))
	if err != nil {
		return damaged(dir, name, "cannot be read: %v", err)
	}
	if err := unseal(name, text, v); err != nil {
		return damaged(dir, name, "%v", err)
	}
	return nil
}
