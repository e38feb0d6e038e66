package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	pb "github.com/simnode/simnode/api/simnodev1"
	"github.com/simnode/simnode/api/simnodev1/simnodev1connect"
	"github.com/simnode/simnode/control"
)

// JobStatus is what a client knows of a job.
type JobStatus struct {
	ID, Name  string
	Phase     control.Phase
	Spec      control.Spec
	Submitted time.Time
	Members   []string
	Regions   int
	Epoch     uint64
	Recorder  string
	Reason    string
	// Progress is nil where it is not known.
	Progress *Progress
}

// ClientOptions say where a cluster is and who asks.
type ClientOptions struct {
	// Address is HOST:PORT of any node, or several with commas between, which are tried in turn; the
	// port may be left out (DefaultPort), and the host if it is this machine. HOST may begin with http:// or
	// https://.
	Address string
	Token   string
	// TLS of the connection; nil for clear text.
	TLS *tls.Config
	// Call bounds a call without a stream, default 30 s; a submission has 20 times as long.
	Call time.Duration
	// Patience is how long Watch looks for a node that answers when one that did no longer does, default
	// 30 s.
	Patience time.Duration
}

// Unreachable says that no node answered. It wraps the error of the last one tried.
type Unreachable struct {
	Address string
	Err     error
	tls     bool
}

func (u *Unreachable) Error() string {
	help := "is one running there? give the address with --cluster or SIMNODE_CLUSTER"
	var dial *net.OpError
	if text := u.Err.Error(); u.tls && !(errors.As(u.Err, &dial) && dial.Op == "dial") || strings.Contains(text, "HTTPS") {
		help = "check --ca, --cert and --key, and http:// or https:// in the address"
	}
	if errors.Is(u.Err, errSpeaksTLS) {
		return fmt.Sprintf("the node at %s %v: give --ca (or SIMNODE_CA), the certificate of the CA that signed those of the nodes", u.Address, u.Err)
	}
	return fmt.Sprintf("no node answers at %s: %v; %s", u.Address, u.Err, help)
}

func (u *Unreachable) Unwrap() error { return u.Err }

// Client asks a cluster. Its methods may be called from many goroutines. An error is an *Error that the
// cluster answered with, an *Unreachable, or that of the context.
type Client struct {
	options ClientOptions
	http    *http.Client
	nodes   []simnodev1connect.ClusterClient
	// last is the node that answered last.
	last atomic.Int32
}

// NewClient makes a client; it connects with the first call.
func NewClient(o ClientOptions) (*Client, error) {
	if o.Call == 0 {
		o.Call = 30 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	dial := &net.Dialer{Timeout: 5 * time.Second}
	c := &Client{options: o, http: &http.Client{
		Transport: clearText{&http.Transport{DialContext: dial.DialContext, TLSClientConfig: o.TLS, TLSHandshakeTimeout: 5 * time.Second,
			ForceAttemptHTTP2: true, IdleConnTimeout: 30 * time.Second}},
		// A redirect would carry the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, address := range strings.Split(o.Address, ",") {
		base, err := baseURL(strings.TrimSpace(address), o.TLS != nil)
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, simnodev1connect.NewClusterClient(c.http, base,
			connect.WithInterceptors(bearer(o.Token)), connect.WithReadMaxBytes(64<<20)))
	}
	return c, nil
}

// errSpeaksTLS is the answer of a server of TLS to clear text.
var errSpeaksTLS = errors.New("speaks TLS")

// clearText notices that clear text was sent to a server of TLS: servers made with Go answer with an HTTP/1.0
// response of one line, others end the connection.
type clearText struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (c clearText) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := c.Transport.RoundTrip(r)
	if err != nil || r.URL.Scheme != "http" || a.StatusCode != http.StatusBadRequest || a.ProtoMajor != 1 || a.ProtoMinor != 0 {
		return a, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, 1<<10))
	if err == nil && strings.Contains(string(text), "HTTP request to an HTTPS server") {
		return nil, errSpeaksTLS
	}
	a.Body = io.NopCloser(bytes.NewReader(text))
	return a, err
}

// baseURL makes a URL of an address.
func baseURL(address string, withTLS bool) (string, error) {
	scheme, rest, given := strings.Cut(address, "://")
	if !given {
		scheme, rest = "http", address
		if withTLS {
			scheme = "https"
		}
	}
	bad := func(help string) (string, error) {
		return "", fmt.Errorf("cluster address %q: %s; expected HOST:PORT, such as 127.0.0.1:%d", clip(address), help, DefaultPort)
	}
	switch {
	case scheme != "http" && scheme != "https":
		return bad("only http:// and https:// are known")
	case scheme == "http" && withTLS:
		return bad("http:// is clear text, and certificates are given; write https://")
	}
	rest = strings.TrimSuffix(rest, "/")
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(rest, "["), "]"), strconv.Itoa(DefaultPort)
	}
	if host == "" && err == nil {
		host = "127.0.0.1"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return bad("the port is no number from 1 to 65535")
	}
	u := &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}
	if again, err := url.Parse(u.String()); err != nil || host == "" || again.Hostname() != host || strings.Trim(host, hostSigns) != "" {
		return bad("the host cannot be read")
	}
	return u.String(), nil
}

// hostSigns are those of names and addresses.
const hostSigns = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:"

// bearer adds the token to calls.
func bearer(token string) connect.Interceptor { return bearerToken(token) }

type bearerToken string

func (b bearerToken) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		b.add(r.Header())
		return next(ctx, r)
	}
}

func (b bearerToken) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		b.add(conn.RequestHeader())
		return conn
	}
}

func (b bearerToken) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func (b bearerToken) add(h http.Header) {
	if b != "" {
		h.Set("Authorization", "Bearer "+string(b))
	}
}

// Close ends the connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// each asks one node after the other, the one that answered last first, until one answers.
func (c *Client) each(ctx context.Context, ask func(simnodev1connect.ClusterClient) error) error {
	first := int(c.last.Load())
	var err error
	for i := range c.nodes {
		at := (first + i) % len(c.nodes)
		err = ask(c.nodes[at])
		var last final
		isLast := errors.As(err, &last)
		if err = c.reason(ctx, err); isLast {
			return err
		}
		if !isUnreachable(err) {
			c.last.Store(int32(at))
			return err
		}
	}
	return err
}

func isUnreachable(err error) bool {
	var u *Unreachable
	return errors.As(err, &u)
}

// reason turns an error of a call into one of a Client.
func (c *Client) reason(ctx context.Context, err error) error {
	var e *connect.Error
	var last final
	switch {
	case err == nil:
		return nil
	case errors.As(err, &last):
		return last.error
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &e) && e.Code() == connect.CodeDeadlineExceeded:
		err = context.DeadlineExceeded
	case errors.As(err, &e) && connect.IsWireError(err):
		return &Error{kindOf(e.Code()), e.Message()}
	case errors.As(err, &e):
		err = e.Unwrap()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time")
	}
	return c.unreachable(err)
}

func (c *Client) unreachable(err error) *Unreachable {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return &Unreachable{c.options.Address, err, c.options.TLS != nil}
}

// call makes a call without a stream.
func call[Q, A any](ctx context.Context, c *Client, long int, q *Q, do func(simnodev1connect.ClusterClient, context.Context, *connect.Request[Q]) (*connect.Response[A], error)) (*A, error) {
	var out *A
	err := c.each(ctx, func(node simnodev1connect.ClusterClient) error {
		within, cancel := context.WithTimeout(ctx, time.Duration(long)*c.options.Call)
		defer cancel()
		a, err := do(node, within, connect.NewRequest(q))
		if err == nil {
			out = a.Msg
		}
		return err
	})
	return out, err
}

// Status tells of the cluster and of one job or, if job is empty, of all in order of submission.
func (c *Client) Status(ctx context.Context, job string) (ClusterStatus, []JobStatus, error) {
	a, err := call(ctx, c, 1, &pb.StatusRequest{Job: job}, simnodev1connect.ClusterClient.Status)
	if err != nil {
		return ClusterStatus{}, nil, err
	}
	var jobs []JobStatus
	for _, j := range a.Jobs {
		jobs = append(jobs, fromJob(j))
	}
	return ClusterStatus{a.Cluster, a.Node, a.Leader, a.Term, a.Old}, jobs, nil
}

// Nodes lists the nodes in order of name.
func (c *Client) Nodes(ctx context.Context) ([]NodeStatus, error) {
	a, err := call(ctx, c, 1, &pb.NodesRequest{}, simnodev1connect.ClusterClient.Nodes)
	if err != nil {
		return nil, err
	}
	var nodes []NodeStatus
	for _, n := range a.Nodes {
		nodes = append(nodes, fromNode(n))
	}
	return nodes, nil
}

// Submit hands a scenario in and returns the id of the job. After an *Unreachable the job may be there all
// the same, if the connection broke before the answer came: Status tells.
func (c *Client) Submit(ctx context.Context, s Submission) (job string, err error) {
	q := &pb.SubmitRequest{Bundle: s.Bundle, Name: s.Name, Spec: toSpec(s.Spec)}
	a, err := call(ctx, c, 20, q, func(node simnodev1connect.ClusterClient, within context.Context, r *connect.Request[pb.SubmitRequest]) (*connect.Response[pb.SubmitResponse], error) {
		a, err := node.Submit(within, r)
		var dial *net.OpError
		if err != nil && !(errors.As(err, &dial) && dial.Op == "dial") {
			// The node may have taken it: handing it to another would make two jobs of it.
			return a, final{c.reason(ctx, err)}
		}
		return a, err
	})
	return a.GetJob(), err
}

// Move asks for another phase of a job: control.Paused, Running or Stopping.
func (c *Client) Move(ctx context.Context, job string, to control.Phase) error {
	var err error
	switch to {
	case control.Paused:
		_, err = call(ctx, c, 1, &pb.PauseRequest{Job: job}, simnodev1connect.ClusterClient.Pause)
	case control.Running:
		_, err = call(ctx, c, 1, &pb.ResumeRequest{Job: job}, simnodev1connect.ClusterClient.Resume)
	case control.Stopping:
		_, err = call(ctx, c, 1, &pb.StopRequest{Job: job}, simnodev1connect.ClusterClient.Stop)
	default:
		err = Errorf(Invalid, "nobody can ask for phase %q", to)
	}
	return err
}

// Results of a job that has ended.
func (c *Client) Results(ctx context.Context, job string) (Results, error) {
	a, err := call(ctx, c, 1, &pb.ResultsRequest{Job: job}, simnodev1connect.ClusterClient.Results)
	if err != nil {
		return Results{}, err
	}
	out := Results{Summary: []byte(a.Summary)}
	for _, f := range a.Files {
		out.Files = append(out.Files, File{f.GetName(), f.GetSize()})
	}
	return out, nil
}

// Watch calls see with how far a job is, until the job has ended; the last one is Done or Failed. When a
// node no longer answers it goes on with another. An error of see ends it and is returned.
func (c *Client) Watch(ctx context.Context, job string, see func(Progress) error) error {
	var lost time.Time
	for {
		ended, heard := false, false
		err := c.each(ctx, func(node simnodev1connect.ClusterClient) error {
			stream, err := node.Watch(ctx, connect.NewRequest(&pb.WatchRequest{Job: job}))
			return receive(stream, err, func(m *pb.WatchResponse) error {
				p := fromProgress(m.GetProgress())
				ended, heard = p.Phase.Ended(), true
				return see(p)
			})
		})
		if err == nil && !ended {
			err = c.unreachable(errors.New("the stream ended before the job"))
		}
		if heard {
			lost = time.Now()
		}
		// Where nobody has ever answered, waiting would hide a wrong address.
		if err == nil || !mayPass(err) || lost.IsZero() || time.Since(lost) > c.options.Patience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// mayPass tells whether an error may be gone soon.
func mayPass(err error) bool {
	var e *Error
	return isUnreachable(err) || errors.As(err, &e) && e.Kind == Unavailable
}

// Logs calls see with log lines. An error of see ends it and is returned.
func (c *Client) Logs(ctx context.Context, q LogQuery, see func(LogLine) error) error {
	begun := false
	return c.each(ctx, func(node simnodev1connect.ClusterClient) error {
		stream, err := node.Logs(ctx, connect.NewRequest(&pb.LogsRequest{Node: q.Node, Follow: q.Follow, Lines: small(q.Lines)}))
		err = receive(stream, err, func(m *pb.LogsResponse) error {
			begun = true
			for _, line := range m.Lines {
				if err := see(fromLine(line)); err != nil {
					return err
				}
			}
			return nil
		})
		return c.whole(ctx, begun, err)
	})
}

// File writes a file of a job to w.
func (c *Client) File(ctx context.Context, job, name string, w io.Writer) error {
	begun := false
	return c.each(ctx, func(node simnodev1connect.ClusterClient) error {
		stream, err := node.File(ctx, connect.NewRequest(&pb.FileRequest{Job: job, Name: name}))
		err = receive(stream, err, func(m *pb.FileResponse) error {
			begun = true
			_, err := w.Write(m.Data)
			return err
		})
		return c.whole(ctx, begun, err)
	})
}

// whole keeps a stream that has begun from being begun again at another node.
func (c *Client) whole(ctx context.Context, begun bool, err error) error {
	if err == nil || !begun {
		return err
	}
	return final{c.reason(ctx, err)}
}

// final is an error that asking another node does not mend.
type final struct{ error }

// receive calls take with each message of a stream. Errors of take are final.
func receive[A any](stream *connect.ServerStreamForClient[A], err error, take func(*A) error) error {
	if err != nil {
		return err
	}
	for stream.Receive() {
		if err := take(stream.Msg()); err != nil {
			_ = stream.Close()
			return final{err}
		}
	}
	return errors.Join(stream.Err(), stream.Close())
}
