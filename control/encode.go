package control

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxCommand bounds a command as text: its data grow by a third.
const maxCommand = 2*MaxResult + 8*maxText

// MarshalState writes a state as JSON, for a snapshot of the log. Equal states give equal bytes.
func MarshalState(s *State) ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("state of the cluster: %w", err)
	}
	return data, nil
}

// UnmarshalState reads what MarshalState wrote. A state that no commands lead to is refused.
func UnmarshalState(data []byte) (*State, error) {
	s := new(State)
	if err := strict(data, s); err != nil {
		return nil, fmt.Errorf("state of the cluster: %w", err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("state of the cluster: %w", err)
	}
	return s, nil
}

// MarshalCommand writes a command as JSON, for an entry of the log.
func MarshalCommand(c Command) ([]byte, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("command %q: %w", c.Key, err)
	}
	return data, nil
}

// UnmarshalCommand reads what MarshalCommand wrote. One that Apply could not make sense of whatever the
// state is refused.
func UnmarshalCommand(data []byte) (Command, error) {
	var c Command
	if len(data) > maxCommand {
		return c, fmt.Errorf("command of %d bytes: %d are the most", len(data), maxCommand)
	}
	if err := strict(data, &c); err != nil {
		return Command{}, fmt.Errorf("command: %w", err)
	}
	if c.Key == "" {
		return Command{}, fmt.Errorf("command without a key")
	}
	if err := c.check(); err != nil {
		return Command{}, fmt.Errorf("command %.80q: %w", c.Key, err)
	}
	return c, nil
}

// strict decodes one value with no unknown fields and nothing after it.
func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("more follows at byte %d", d.InputOffset())
	}
	return nil
}

func (s *State) check() error {
	switch {
	case len(s.Jobs) > MaxJobs+KeptJobs:
		return fmt.Errorf("%d jobs: %d are the most", len(s.Jobs), MaxJobs+KeptJobs)
	case len(s.Keys) > keptKeys:
		return fmt.Errorf("%d answers: %d are the most", len(s.Keys), keptKeys)
	case len(s.Bundles) > MaxJobs+MaxIdle:
		return fmt.Errorf("%d bundles: %d are the most", len(s.Bundles), MaxJobs+MaxIdle)
	}
	for _, b := range s.Bundles {
		if err := b.check(); err != nil {
			return err
		}
	}
	ids := make(map[string]bool, len(s.Jobs)) // looked up, never iterated
	for _, j := range s.Jobs {
		if err := j.check(s.LastEpoch); err != nil {
			return err
		}
		if ids[j.ID] {
			return fmt.Errorf("%s is there twice", j.ID)
		}
		ids[j.ID] = true
	}
	return nil
}

func (b *Bundle) check() error {
	switch {
	case b == nil:
		return fmt.Errorf("a bundle is missing")
	case b.Size < 1 || b.Size > MaxBundle || len(b.Data) > b.Size || b.Complete != (len(b.Data) == b.Size):
		return fmt.Errorf("bundle %.12q of %d bytes holds %d, complete is %v", b.Hash, b.Size, len(b.Data), b.Complete)
	}
	return checkHash(b.Hash)
}

func (j *Job) check(last uint64) error {
	if j == nil {
		return fmt.Errorf("a job is missing")
	}
	switch j.Phase {
	case Initialising, Running, Paused, Stopping, Suspending, Suspended, Done, Failed:
	default:
		return fmt.Errorf("job %.64q is in an unknown phase %.40q", j.ID, j.Phase)
	}
	if j.ID == "" || len(j.ID) > 64 || j.Epoch > last || len(j.Result) > MaxResult {
		return fmt.Errorf("job %.64q of epoch %d with a result of %d bytes: the last epoch is %d", j.ID, j.Epoch, len(j.Result), last)
	}
	if j.Epoch == 0 {
		if len(j.Members)+len(j.Boots)+len(j.Owner)+len(j.Checkpoints) > 0 || j.Recorder != 0 || j.Restore != nil {
			return fmt.Errorf("%.64q has members but no epoch", j.ID)
		}
		return nil
	}
	if err := checkMembers(j.Members, j.Boots, j.Owner, j.Recorder); err != nil {
		return fmt.Errorf("%.64q: %w", j.ID, err)
	}
	if err := j.checkSaved(); err != nil {
		return fmt.Errorf("%.64q: %w", j.ID, err)
	}
	return nil
}
