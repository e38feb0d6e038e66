package api

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/simnode/simnode/api/simnodev1/simnodev1connect"
)

// guard stands before every handler: rules, roles and limits, all before a byte of the body is read.
func (s *Server) guard(next http.Handler) http.Handler {
	browsers := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control, own := http.NewResponseController(w), w
		w = &patientWriter{w, control, s.limits.Write}
		if r.ContentLength != 0 {
			// At once, and not with the first read: a body that no handler wants is waited for as well.
			_ = control.SetReadDeadline(time.Now().Add(s.bodyTime(r.URL.Path)))
		}
		role, is := need(s.rules, r.URL.Path)
		if !is {
			s.refuse(w, r, Errorf(NotFound, "there is nothing at %q; the calls are described in simnode.proto", clip(r.URL.Path)))
			return
		}
		if err := s.config.Access.check(r, role); err != nil {
			s.log.Warn("an API request was refused", "from", r.RemoteAddr, "path", clip(r.URL.Path), "reason", err.Text)
			s.refuse(w, r, err)
			return
		}
		if err := browsers.Check(r); err != nil {
			s.refuse(w, r, Errorf(Forbidden, "a web page of another origin may not ask this"))
			return
		}
		leave, err := s.enter(r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		defer leave()
		if r.ContentLength != 0 {
			// A copy, for net/http must find its own body to see that it was not read to its end.
			r = r.WithContext(r.Context())
			r.Body = &timedBody{http.MaxBytesReader(own, r.Body, bodyLimit(r.URL.Path)), control}
		}
		next.ServeHTTP(w, r)
	})
}

// bodyTime is how long the body of a request to a path may take.
func (s *Server) bodyTime(path string) time.Duration {
	if path == simnodev1connect.ClusterSubmitProcedure {
		return s.limits.SubmitBody
	}
	return s.limits.Body
}

// refuse answers in the protocol of the request.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, e *Error) {
	if e.Kind == Unauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	// What follows on this connection would be a body that nobody reads.
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
	if s.errors.IsSupported(r) {
		_ = s.errors.Write(w, r, wireError(e))
		return
	}
	plain(w, httpStatus(e.Kind), e.Text)
}

// enter takes a place among the requests that take long; the function returned gives it back.
func (s *Server) enter(r *http.Request) (leave func(), _ *Error) {
	switch r.URL.Path {
	case simnodev1connect.ClusterSubmitProcedure:
		wait := time.NewTimer(s.limits.Wait)
		defer wait.Stop()
		select {
		case s.submits <- struct{}{}:
			return func() { <-s.submits }, nil
		case <-wait.C:
		case <-s.closing.Done():
		case <-r.Context().Done():
		}
		return nil, Errorf(Exhausted, "%d other scenarios are being handed in to this node; try again soon", s.limits.Submits)
	case simnodev1connect.ClusterWatchProcedure, simnodev1connect.ClusterLogsProcedure, simnodev1connect.ClusterFileProcedure:
		select {
		case s.streams <- struct{}{}:
			return func() { <-s.streams }, nil
		default:
			return nil, Errorf(Exhausted, "this node serves %d streams already, as many as it may; ask another node", s.limits.Streams)
		}
	}
	return func() {}, nil
}

// patientWriter gives each write to a client its own deadline, so that a stream may last while a client
// that reads nothing may not.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

func (p *patientWriter) extend() { _ = p.control.SetWriteDeadline(time.Now().Add(p.limit)) }

func (p *patientWriter) Write(data []byte) (int, error) {
	p.extend()
	return p.ResponseWriter.Write(data)
}

// Flush is a write too: of what is buffered.
func (p *patientWriter) Flush() {
	p.extend()
	_ = p.control.Flush()
}

// Unwrap is for http.ResponseController.
func (p *patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// timedBody ends the deadline of a body with the body: from then on the connection is read to notice a
// client that went away.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (t *timedBody) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = t.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
