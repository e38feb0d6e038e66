package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
)

// ErrCertificate is a certificate that does not carry the name of the node that shows it.
var ErrCertificate = errors.New("certificate of another node")

// secured returns what a listening and a dialling side need. Certificates, authorities and callbacks come
// from base (to rotate them: GetCertificate and GetClientCertificate); what it says of versions, client
// certificates and verification is replaced.
func secured(base *tls.Config) (server, client *tls.Config, err error) {
	if base == nil {
		return nil, nil, nil
	}
	hasOwn := len(base.Certificates) > 0 || base.GetCertificate != nil && base.GetClientCertificate != nil
	if !hasOwn || base.RootCAs == nil || base.ClientCAs == nil {
		return nil, nil, errors.New("transport: TLS between nodes needs a certificate, RootCAs and ClientCAs")
	}
	server = base.Clone()
	server.MinVersion = tls.VersionTLS13
	server.ClientAuth = tls.RequireAndVerifyClientCert
	server.GetConfigForClient = nil
	client = base.Clone()
	client.MinVersion = tls.VersionTLS13
	// A node is known by its name, not by the host it runs on, so the standard check of host names does
	// not fit. The chain is verified below, the name after the preamble.
	client.InsecureSkipVerify = true
	client.VerifyConnection = func(state tls.ConnectionState) error {
		return verifyChain(state, base)
	}
	return server, client, nil
}

// verifyChain checks that the certificate of a listening side comes from one of the authorities.
func verifyChain(state tls.ConnectionState, base *tls.Config) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the other side shows no certificate")
	}
	options := x509.VerifyOptions{Roots: base.RootCAs, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if base.Time != nil {
		options.CurrentTime = base.Time()
	}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err
}

// verifyName checks that a verified certificate is that of the node: a DNS name or, if it has none, its
// common name.
func verifyName(state tls.ConnectionState, name string) error {
	c := state.PeerCertificates[0]
	names := c.DNSNames
	if len(names) == 0 {
		names = []string{c.Subject.CommonName}
	}
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("%w: the node says that it is %q, its certificate is for %q", ErrCertificate, name, names)
}
