package api

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON is JSON of messages as usual, but for keys that are not known: they are refused, so that a
// misspelt one is not left out silently.
type strictJSON struct{ name string }

// strict are the options that replace the usual JSON.
func strict() connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithCodec(strictJSON{"json"}), connect.WithCodec(strictJSON{"json; charset=utf-8"}))
}

func (s strictJSON) Name() string { return s.name }

func (strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", message)
	}
	return protojson.Marshal(m)
}

func (strictJSON) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", message)
	}
	if len(data) == 0 {
		return fmt.Errorf("expected a JSON object, such as {}")
	}
	return protojson.Unmarshal(data, m)
}
