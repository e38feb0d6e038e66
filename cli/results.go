package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/summary"
)

func (e *env) resultsCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "results [JOB] [flags]",
		Short: "Fetch the summary and the files of a job that has ended",
		Long: `Prints the summary of a job that has ended, in the same form as run. With --out its files are fetched as
well, from any node. JOB may be left out for the last one that has ended.

` + clientCodes,
		Args: oneJob,
	}
	cmd.Flags().StringVar(&dir, "out", "", "folder `DIR` for the files, made if missing; files of an earlier run are replaced, others are left alone")
	return e.clientCommand(cmd, func(ctx context.Context, c *api.Client, f *clientFlags, args []string) error {
		if cmd.Flags().Changed("out") && dir == "" {
			return usagef("--out is given without a value: give one or leave the flag out")
		}
		job, err := pickEnded(ctx, c, args)
		if err != nil {
			return err
		}
		s, files, err := fetchSummary(ctx, c, job)
		if err == nil && dir != "" {
			err = fetch(ctx, c, job, s, files, dir)
		}
		if err != nil {
			return err
		}
		return s.Print(e.stdout, f.format.text)
	})
}

// fetch writes the files of a job into a folder, the summary last, and makes the summary name them there.
func fetch(ctx context.Context, c *api.Client, job string, s *summary.Summary, files []api.File, dir string) (err error) {
	if err := checkNames(job, files); err != nil {
		return err
	}
	held, err := lockFolder(dir)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, held.Close()) }()
	if err := removeRun(dir); err != nil {
		return err
	}
	return fetchInto(ctx, c, job, s, files, dir)
}

// checkNames refuses names that are no plain names of files.
func checkNames(job string, files []api.File) error {
	for _, f := range files {
		if !plainName(f.Name) {
			return fmt.Errorf("%s: the cluster names a file %q, which is no plain name of a file; nothing was written", job, f.Name)
		}
	}
	return nil
}

// fetchInto is fetch into a folder that is ours already.
func fetchInto(ctx context.Context, c *api.Client, job string, s *summary.Summary, files []api.File, dir string) error {
	if err := checkNames(job, files); err != nil {
		return err
	}
	s.Outputs = []string{}
	last := slices.IndexFunc(files, func(f api.File) bool { return f.Name == summary.File })
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		s.Outputs = append(s.Outputs, path)
		if f.Name == summary.File {
			continue
		}
		if err := fetchFile(ctx, c, job, f, path); err != nil {
			return err
		}
	}
	if last < 0 {
		return nil
	}
	data, err := s.JSON()
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(dir, summary.File), func(to *os.File) error {
		_, err := to.Write(data)
		return err
	})
}

// fetchFile writes one file, which must be as long as was said.
func fetchFile(ctx context.Context, c *api.Client, job string, f api.File, path string) error {
	return writeWhole(path, func(to *os.File) error {
		n := &counter{to: to}
		if err := c.File(ctx, job, f.Name, n); err != nil {
			return err
		}
		if n.n != f.Size {
			return fmt.Errorf("%s: %s came with %d bytes instead of %d; fetch it again", job, f.Name, n.n, f.Size)
		}
		return nil
	})
}

type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// plainName tells names of files that a run writes from all others, such as paths.
func plainName(name string) bool {
	const signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	return name != "" && len(name) <= 200 && name[0] != '.' && strings.Trim(name, signs) == "" && slices.Contains(runFiles(), filepath.Ext(name))
}

// joined is errors.Join that keeps a single error as it is.
func joined(err, more error) error {
	if err == nil {
		return more
	}
	return err
}
