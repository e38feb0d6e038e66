// Package api is the door of a cluster for people and programs: one port that speaks gRPC, gRPC-web and
// JSON over HTTP (simnode.proto), and the client of it.
//
// # What it promises
//
//   - Nothing is served without a rule: every call and every path has a role (Public, Read, Operate) in
//     one table, and what is not in it does not exist.
//   - Who asks is known before the body of a request is read: by a bearer token (Tokens) or by a verified
//     client certificate. Tokens are compared in constant time and are never logged. Without tokens and
//     certificates everything is refused, unless the server is open (Access.Open), which is meant for
//     loopback: then a request must name a loopback host, so that no web page reaches it under another
//     name.
//   - Everything is bounded: connections, time to send headers and bodies, bytes of a request before and
//     after decompression, submissions at once, time that a slow reader may take.
//   - No name from the network is a path: a job is known by its id, a file by being in the job's own list.
//   - What is wrong comes back as a code and a sentence that says what to do (Error). What is no Error is
//     logged here and told as an internal error without its text.
//
// Beside the calls there are GET /healthz (the process lives), /readyz (Backend.Ready), /metrics
// (Prometheus) and /jobs/JOB/files/NAME (a file of a job that has ended).
package api

// The generated code, made with protoc 3.21.12 and the plugins at the versions of go.mod:
//
//go:generate protoc -I . --go_out=.. --go_opt=module=github.com/simnode/simnode --connect-go_out=.. --connect-go_opt=module=github.com/simnode/simnode,package_suffix=connect simnode.proto
