package server

import (
	"fmt"
	"runtime/debug"
)

// guard runs f, which calls a model's code, on a goroutine of its own, and makes a panic or the end of the
// goroutine an error like any other.
func guard(what string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := fmt.Errorf("%s ended its goroutine (runtime.Goexit): this is a fault of the model's code", what)
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("%s failed with a panic: %v\n%s", what, v, debug.Stack())
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
}

// caught makes a panic of f an error. It is for short calls on the loop's goroutine.
func caught(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s failed with a panic: %v\n%s", what, v, debug.Stack())
		}
	}()
	return f()
}
