package api

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Role is what a request needs and what who asks has; each includes those before it.
type Role byte

const (
	// Public is for everybody.
	Public Role = iota + 1
	// Read sees everything and changes nothing.
	Read
	// Operate submits, pauses, resumes and stops jobs.
	Operate
)

func (r Role) String() string {
	switch r {
	case Public:
		return "public"
	case Read:
		return "read"
	case Operate:
		return "operate"
	}
	return "none"
}

// Bounds of a file of tokens.
const (
	maxTokenFile = 1 << 20
	maxTokens    = 1000
	minToken     = 16
	maxToken     = 256
	// maxWrong is how many lines are named that are wrong.
	maxWrong = 20
)

// Tokens are the bearer tokens (RFC 6750) that a server accepts. They are kept as digests and print as
// their number.
type Tokens struct{ list []token }

type token struct {
	role Role
	sum  [sha256.Size]byte
	line int
}

// LoadTokens reads a file of tokens; see ParseTokens.
func LoadTokens(path string) (*Tokens, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxTokenFile+1))
	if err != nil {
		return nil, err
	}
	t, err := ParseTokens(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// ParseTokens reads lines "role token", with role read or operate and a token of 16 to 256 letters, digits
// and -._~+/=. Blank lines and those that begin with # are left out. The error names all lines that are wrong, up
// to a bound, and never repeats what stands there.
func ParseTokens(data []byte) (*Tokens, error) {
	if len(data) > maxTokenFile {
		return nil, fmt.Errorf("more than %d bytes; is this a file of tokens?", maxTokenFile)
	}
	t := &Tokens{}
	var wrong []string
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxTokenFile+1)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := t.add(words, n); err != nil {
			wrong = append(wrong, fmt.Sprintf("line %d: %v", n, err))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if more := len(wrong) - maxWrong; more > 0 {
		wrong = append(wrong[:maxWrong], fmt.Sprintf("and %d more lines", more))
	}
	if len(wrong) > 0 {
		return nil, errors.New(strings.Join(wrong, "; "))
	}
	if len(t.list) == 0 {
		return nil, fmt.Errorf("there are no tokens; expected lines such as \"operate TOKEN\"")
	}
	return t, nil
}

// add takes in the words of a line.
func (t *Tokens) add(words []string, line int) error {
	if len(words) != 2 {
		return fmt.Errorf("%d words; expected a role and a token, such as \"operate TOKEN\"", len(words))
	}
	role := map[string]Role{"read": Read, "operate": Operate}[words[0]]
	if role == 0 {
		return fmt.Errorf("the first word is no role; expected read or operate, then the token")
	}
	text := words[1]
	if len(text) < minToken || len(text) > maxToken || strings.Trim(text, tokenSigns) != "" {
		return fmt.Errorf("the token is not %d to %d letters, digits and -._~+/=; make one with: openssl rand -hex 32", minToken, maxToken)
	}
	sum := sha256.Sum256([]byte(text))
	for _, other := range t.list {
		if other.sum == sum {
			return fmt.Errorf("the token is that of line %d; give each its own", other.line)
		}
	}
	if len(t.list) == maxTokens {
		return fmt.Errorf("more than %d tokens", maxTokens)
	}
	t.list = append(t.list, token{role, sum, line})
	return nil
}

const tokenSigns = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="

// role finds the role of a token, in a time that does not depend on how much of it is right.
func (t *Tokens) role(text string) (Role, bool) {
	if t == nil {
		return 0, false
	}
	sum := sha256.Sum256([]byte(text))
	found := 0
	for _, k := range t.list {
		same := subtle.ConstantTimeCompare(k.sum[:], sum[:])
		found = subtle.ConstantTimeSelect(same, int(k.role), found)
	}
	return Role(found), found != 0
}

// String tells how many there are and nothing more.
func (t *Tokens) String() string {
	if t == nil {
		return "no tokens"
	}
	return fmt.Sprintf("%d tokens", len(t.list))
}

// GoString keeps digests out of %#v.
func (t *Tokens) GoString() string { return t.String() }
