package api

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/simnode/simnode/api/simnodev1/simnodev1connect"
)

// Access says who may do what. The zero value refuses everything but /healthz and /readyz.
type Access struct {
	// Tokens that are accepted; nil for none.
	Tokens *Tokens
	// Certificates gives role Operate to a client certificate that TLS has verified. Config.TLS must ask
	// for one.
	Certificates bool
	// Open gives role Operate to everybody who names the server by a loopback host. It is for servers
	// that listen on loopback and have no tokens.
	Open bool
}

// Paths beside the calls.
const (
	pathHealth  = "/healthz"
	pathReady   = "/readyz"
	pathMetrics = "/metrics"
	pathJobs    = "/jobs/"
)

// rules is what each path needs. A path that ends in a slash stands for all below it.
func rules() map[string]Role {
	return map[string]Role{
		simnodev1connect.ClusterStatusProcedure:  Read,
		simnodev1connect.ClusterNodesProcedure:   Read,
		simnodev1connect.ClusterWatchProcedure:   Read,
		simnodev1connect.ClusterLogsProcedure:    Read,
		simnodev1connect.ClusterResultsProcedure: Read,
		simnodev1connect.ClusterFileProcedure:    Read,
		simnodev1connect.ClusterSubmitProcedure:  Operate,
		simnodev1connect.ClusterPauseProcedure:   Operate,
		simnodev1connect.ClusterResumeProcedure:  Operate,
		simnodev1connect.ClusterStopProcedure:    Operate,

		pathHealth:  Public,
		pathReady:   Public,
		pathMetrics: Read,
		pathJobs:    Read,
	}
}

// need is what a path needs; without a rule it does not exist.
func need(rules map[string]Role, path string) (Role, bool) {
	if strings.HasPrefix(path, pathJobs) {
		path = pathJobs
	}
	role, is := rules[path]
	return role, is
}

// check says whether a request has a role; nil if so.
func (a Access) check(r *http.Request, need Role) *Error {
	if need == Public {
		return nil
	}
	has, err := a.role(r)
	if err != nil {
		return err
	}
	if has < need {
		return Errorf(Forbidden, "this needs role %v, and the token has role %v", need, has)
	}
	return nil
}

// role finds who asks. A token that is given must be right, whatever else would do.
func (a Access) role(r *http.Request) (Role, *Error) {
	if header := r.Header.Get("Authorization"); header != "" && a.Tokens != nil {
		scheme, text, _ := strings.Cut(header, " ")
		role, ok := a.Tokens.role(text)
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return 0, Errorf(Unauthenticated, "the token is not one that this node accepts; check --token, SIMNODE_TOKEN or the header \"Authorization: Bearer TOKEN\"")
		}
		return role, nil
	}
	if a.Certificates && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return Operate, nil
	}
	if !a.Open {
		return 0, Errorf(Unauthenticated, "this needs %s", a.wanted())
	}
	if !loopback(r.Host) {
		return 0, Errorf(Forbidden, "this node is open on loopback only, and the request names host %q; use 127.0.0.1 or localhost, or give the node tokens", clip(r.Host))
	}
	return Operate, nil
}

// wanted names what would do.
func (a Access) wanted() string {
	token := "a token: give --token, SIMNODE_TOKEN or the header \"Authorization: Bearer TOKEN\""
	certificate := "a client certificate: give --ca, --cert and --key"
	switch {
	case a.Tokens != nil && a.Certificates:
		return token + "; or " + certificate
	case a.Tokens != nil:
		return token
	case a.Certificates:
		return certificate
	}
	return "a token or a client certificate, and the node was given neither tokens nor a CA"
}

// loopback tells whether a Host header names this machine alone.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// clip cuts text from outside to a length for messages.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
