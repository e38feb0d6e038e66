package api

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/simnode/simnode/api/simnodev1/simnodev1connect"
)

// DefaultPort is where nodes serve the API unless told otherwise.
const DefaultPort = 7373

// Config is what a Server is made of.
type Config struct {
	Backend Backend
	Access  Access
	// TLS of the port; nil for clear text. To let clients choose between tokens and certificates,
	// ClientAuth should be tls.VerifyClientCertIfGiven.
	TLS *tls.Config
	// Metrics are served at /metrics; nil for none.
	Metrics prometheus.Gatherer
	// Log of refused and failed requests; nil for none. Tokens are never in it.
	Log    *slog.Logger
	Limits Limits
}

// Limits bound what clients can take. A field that is 0 has its default.
type Limits struct {
	// Connections at once, default 512. A quarter of them is the most of one address.
	Connections int
	// Submits at once, default 2: each may need some times MaxBundle of memory.
	Submits int
	// Streams is how many Watch, Logs and File calls are served at once, default 256.
	Streams int
	// Header is the time for TLS and the headers of a request, default 5 s.
	Header time.Duration
	// Body is the time for the body of a request, default 20 s; of Submit SubmitBody, default 10 min.
	Body, SubmitBody time.Duration
	// Write is the time that each write to a client may take, default 20 s.
	Write time.Duration
	// Idle is how long a connection without requests is kept, default 60 s.
	Idle time.Duration
	// Wait is how long a submission waits for others to end, default 20 s.
	Wait time.Duration
}

func (l Limits) withDefaults() Limits {
	for _, n := range []struct {
		to    *int
		usual int
	}{{&l.Connections, 512}, {&l.Submits, 2}, {&l.Streams, 256}} {
		if *n.to == 0 {
			*n.to = n.usual
		}
	}
	for _, d := range []struct {
		to    *time.Duration
		usual time.Duration
	}{
		{&l.Header, 5 * time.Second}, {&l.Body, 20 * time.Second}, {&l.SubmitBody, 10 * time.Minute},
		{&l.Write, 20 * time.Second}, {&l.Idle, 60 * time.Second}, {&l.Wait, 20 * time.Second},
	} {
		if *d.to == 0 {
			*d.to = d.usual
		}
	}
	return l
}

// Largest bodies in bytes. JSON holds a bundle in base64, four bytes for three.
const (
	maxBody       = 64 << 10
	maxSubmitBody = MaxBundle/3*4 + 1<<20
)

// Server serves the API.
type Server struct {
	config  Config
	limits  Limits
	log     *slog.Logger
	rules   map[string]Role
	errors  *connect.ErrorWriter
	handler http.Handler
	http    *http.Server

	submits, streams chan struct{}
	// closing ends streams when the server shuts down.
	closing context.Context
	close   context.CancelFunc
}

// New makes a server. It does nothing until Serve.
func New(c Config) *Server {
	s := &Server{config: c, limits: c.Limits.withDefaults(), log: c.Log, rules: rules(), errors: connect.NewErrorWriter(strict())}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.submits, s.streams = make(chan struct{}, s.limits.Submits), make(chan struct{}, s.limits.Streams)
	s.closing, s.close = context.WithCancel(context.Background())
	s.handler = s.guard(s.routes())
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(c.TLS == nil)
	s.http = &http.Server{
		Handler: s.handler, TLSConfig: c.TLS, Protocols: protocols,
		ReadHeaderTimeout: s.limits.Header, IdleTimeout: s.limits.Idle, MaxHeaderBytes: 16 << 10,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 64, SendPingTimeout: s.limits.Idle, PingTimeout: s.limits.Header, WriteByteTimeout: s.limits.Write},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return s
}

// Handler is what the server serves, with all its rules, for a listener of one's own.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve takes connections until Shutdown; it then returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	l = newCrowd(l, s.limits.Connections)
	var err error
	if s.config.TLS != nil {
		err = s.http.ServeTLS(l, "", "")
	} else {
		err = s.http.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown ends streams, waits until other requests are answered or ctx is done, and closes all
// connections.
func (s *Server) Shutdown(ctx context.Context) error {
	s.close()
	err := s.http.Shutdown(ctx)
	return errors.Join(err, s.http.Close())
}

// routes are the handlers of all paths. What each needs stands in rules.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(simnodev1connect.NewClusterHandler(calls{s}, strict(),
		connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
			return []connect.HandlerOption{connect.WithReadMaxBytes(int(bodyLimit(spec.Procedure)))}
		}),
		connect.WithRecover(func(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
			s.log.Error("an API call failed with a panic", "call", spec.Procedure, "panic", cause)
			return connect.NewError(connect.CodeInternal, errInternal)
		})))
	mux.HandleFunc("GET "+pathHealth, func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET "+pathReady, s.ready)
	mux.HandleFunc("GET "+pathJobs+"{job}/files/{name}", s.download)
	if s.config.Metrics != nil {
		mux.Handle("GET "+pathMetrics, promhttp.HandlerFor(s.config.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: s.limits.Write}))
	}
	return mux
}

// bodyLimit is the largest body of a request to a path.
func bodyLimit(path string) int64 {
	if path == simnodev1connect.ClusterSubmitProcedure {
		return maxSubmitBody
	}
	return maxBody
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.config.Backend.Ready(); err != nil {
		plain(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	plain(w, http.StatusOK, "ready")
}

// plain answers with a line of text.
func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n"))
}
