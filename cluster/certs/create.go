package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Validity of what Create makes.
const (
	CAValidity   = 10 * 365 * 24 * time.Hour
	NodeValidity = 2 * 365 * 24 * time.Hour
	// skew is how far clocks of machines may differ.
	skew = time.Hour
)

// Names of the authority's files in the folder of Create.
const (
	CAFile    = "ca.pem"
	CAKeyFile = "ca-key.pem"
)

// CertFile returns the name of a node's certificate in the folder of Create.
func CertFile(node string) string { return node + ".pem" }

// KeyFile returns the name of a node's key in the folder of Create.
func KeyFile(node string) string { return node + "-key.pem" }

var nodeName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)

// Create makes certificates for nodes in a folder, signed by the authority there, which it makes if there is
// none. Every certificate is good for the node's name, for hosts (names or IP addresses by which nodes are
// reached) and for this machine (localhost, 127.0.0.1, ::1). An error leaves whole files only; those made
// before it stay.
func Create(dir string, names, hosts []string) error {
	if err := check(dir, names, hosts); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, key, err := authority(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := createNode(dir, name, hosts, ca, key); err != nil {
			return fmt.Errorf("certificate of node %q: %w", name, err)
		}
	}
	return nil
}

// check refuses what cannot be made before anything is written.
func check(dir string, names, hosts []string) error {
	if len(names) == 0 {
		return errors.New("no node is named; give at least one")
	}
	for i, name := range names {
		if !nodeName.MatchString(name) {
			return fmt.Errorf("node name %q: letters, digits, '.', '-' and '_' are expected, at most 64, with a letter or digit at both ends", name)
		}
		if name == "ca" || slices.Contains(names[:i], name) {
			return fmt.Errorf("node name %q is taken", name)
		}
		for _, file := range []string{CertFile(name), KeyFile(name)} {
			path := filepath.Join(dir, file)
			if _, err := os.Lstat(path); err == nil {
				return fmt.Errorf("%s exists and is not overwritten; move it away to make a new one", path)
			}
		}
	}
	for _, host := range hosts {
		if net.ParseIP(host) == nil && !nodeName.MatchString(host) {
			return fmt.Errorf("host %q is neither an IP address nor a host name (without a port)", host)
		}
	}
	return nil
}

// authority loads the authority of a folder or makes one.
func authority(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certPath, keyPath := filepath.Join(dir, CAFile), filepath.Join(dir, CAKeyFile)
	_, errCert := os.Lstat(certPath)
	_, errKey := os.Lstat(keyPath)
	if errors.Is(errCert, fs.ErrNotExist) && errors.Is(errKey, fs.ErrNotExist) {
		return createCA(certPath, keyPath)
	}
	pair, err := tls.LoadX509KeyPair(certPath, keyPath)
	if err != nil {
		return nil, nil, fmt.Errorf("the authority in %s cannot be used (%s and %s are both needed to sign): %w", dir, CAFile, CAKeyFile, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, nil, fmt.Errorf("%s is no authority with an ECDSA key", certPath)
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return nil, nil, fmt.Errorf("%s has ended on %s; make a new authority in another folder", certPath, pair.Leaf.NotAfter.Format(time.DateOnly))
	}
	return pair.Leaf, key, nil
}

func createCA(certPath, keyPath string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	template, key, err := template("simnode CA", CAValidity)
	if err != nil {
		return nil, nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	return ca, key, writePair(certPath, keyPath, der, key)
}

func createNode(dir, name string, hosts []string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	template, key, err := template(name, NodeValidity)
	if err != nil {
		return err
	}
	if template.NotAfter.After(ca.NotAfter) {
		template.NotAfter = ca.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = []string{name}
	for _, host := range append([]string{"localhost", "127.0.0.1", "::1"}, hosts...) {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if !slices.Contains(template.DNSNames, host) {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	if err != nil {
		return err
	}
	return writePair(filepath.Join(dir, CertFile(name)), filepath.Join(dir, KeyFile(name)), der, key)
}

func template(name string, valid time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: []string{"simnode"}},
		NotBefore:    now.Add(-skew),
		NotAfter:     now.Add(valid),
	}, key, nil
}

// writePair writes the key first: a certificate without a key would be of no use.
func writePair(certPath, keyPath string, der []byte, key *ecdsa.PrivateKey) error {
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writeNew(keyPath, 0o600, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})); err != nil {
		return err
	}
	if err := writeNew(certPath, 0o644, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})); err != nil {
		return errors.Join(err, os.Remove(keyPath))
	}
	return nil
}

// writeNew writes a file that must not exist, whole or not at all.
func writeNew(path string, mode os.FileMode, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err = f.Chmod(mode); err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Link(f.Name(), path) // fails if path exists
}
