// Package certs makes the certificates of a cluster and loads them.
//
// # What it promises
//
//   - Create makes a certificate authority and one certificate for each node: ECDSA P-256, signed with
//     SHA-256, good for servers and clients. The name of a node is the common name and the first DNS name of
//     its certificate, and who dials a node checks it.
//   - Keys are written with mode 0600 and files are there whole or not at all. Nothing that exists is
//     overwritten; an authority that exists signs further nodes.
//   - Load gives TLS settings for both ends: TLS 1.3 only, both sides verified against the authority. New
//     files are taken up without a restart, a second after they were written at the latest, for connections
//     made from then on; files that cannot be read leave the last good ones in use.
package certs
