package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate"
	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/backup/online"
	"github.com/quorate/quorate/client"
)

// newBackup groups `quoratectl backup`.
func newBackup(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup", Aliases: []string{"backups"}, Short: "Copy definitions and messages of a running cluster, and restore them",
		Long: "Copy definitions and messages of a running cluster to PLACE, and restore them into the same or another cluster.\n" +
			"PLACE is a directory, a file whose name ends in .tar, or s3://BUCKET/PREFIX; credentials for S3 come from\n" +
			"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from the AWS command line's file, or from the machine's role. Its\n" +
			"certificate is verified by --s3-ca, and those of nodes by --tls-ca: the authorities are different ones.",
	}
	cmd.AddCommand(newBackupCreate(s), newBackupShow(s), newBackupVerify(s), newBackupRestore(s), newBackupList(s), newBackupPrune(s), newBackupKey())
	return cmd
}

// place holds the flags that say how a backup is reached and read.
type place struct {
	s3          archive.S3Config
	s3Authority string
	keyFile     string
}

// newPlace adds the flags.
func newPlace(cmd *cobra.Command) *place {
	p := &place{}
	cmd.Flags().StringVar(&p.s3.Endpoint, "s3-endpoint", "", "URL of the S3 service; default Amazon's")
	cmd.Flags().StringVar(&p.s3.Region, "s3-region", "", "region of the bucket; default: asked for")
	cmd.Flags().StringVar(&p.s3Authority, "s3-ca", "", "PEM file with the authorities of the S3 service's certificate; default: the system's")
	cmd.Flags().StringVar(&p.keyFile, "key-file", "", "file with the key of an encrypted backup, see quoratectl backup key")
	return p
}

// reach reads the files that the flags name. The keys are nil without one: backups there are not encrypted.
func (p *place) reach(name string) (at archive.Location, k *archive.Keys, err error) {
	at = archive.Location{Name: name, S3: p.s3}
	if at.S3.Authorities, err = readAuthorities("--s3-ca", p.s3Authority); err != nil || p.keyFile == "" {
		return at, nil, err
	}
	if k, err = archive.ReadKeys(p.keyFile); err != nil {
		err = usageError{err}
	}
	return at, k, err
}

// open opens the backup at a place.
func (p *place) open(ctx context.Context, name string) (*archive.Reader, error) {
	at, k, err := p.reach(name)
	if err != nil {
		return nil, err
	}
	store, err := at.Open(ctx)
	if err != nil {
		return nil, err
	}
	r, err := archive.Open(ctx, store, k)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return r, nil
}

// placeTime stands for the time in the name of a place.
const (
	placeTime       = "{time}"
	placeTimeFormat = "20060102T150405Z"
)

// newBackupCreate makes `backup create`. It may run for long, so only a --timeout that is given bounds it.
func newBackupCreate(s *session) *cobra.Command {
	var queues []string
	ifMissing := false
	cmd := &cobra.Command{
		Use: "create PLACE", Short: "Copy the cluster, a vhost or chosen queues", Args: exactArgs("PLACE"),
		Long: "Copy definitions and messages of the cluster, of --vhost, or the messages of chosen queues. The cluster goes on.\n" +
			"The backup has every message that was confirmed before the command began, unless it had left its queue.\n" +
			"{time} in PLACE stands for the time in UTC, as in 20261127T030000Z. The backup is shown as an operation, and ends\n" +
			"without being complete when that is cancelled. A queue that cannot be copied for two minutes, because it has no\n" +
			"leader or all disks are low, is left out and named; then the exit code is 3.",
		Example: "  quoratectl backup create s3://backups/orders/2026-11-27 --key-file backup.key\n" +
			"  quoratectl backup create /backups/{time} && quoratectl backup prune /backups --keep 7\n" +
			"  quoratectl backup create orders.tar --vhost orders --queue new --queue paid",
	}
	p := newPlace(cmd)
	cmd.Flags().StringArrayVar(&queues, "queue", nil, "copy this queue of the vhost, without definitions; repeatable")
	cmd.Flags().BoolVar(&ifMissing, "if-missing", false, "succeed if PLACE has a complete backup already, as after a try whose end nobody saw")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		inBackground(cmd.Context())
		to, k, err := p.reach(args[0])
		if err != nil {
			return err
		}
		ctx, c, end, err := s.begin(cmd)
		if err != nil {
			return err
		}
		defer end()
		status, err := c.ClusterStatus(ctx)
		if err != nil {
			return err
		}
		to.Name = strings.ReplaceAll(to.Name, placeTime, time.Now().UTC().Format(placeTimeFormat))
		store, err := to.Create(ctx)
		if ifMissing && errors.Is(err, archive.ErrExists) {
			printf(cmd.ErrOrStderr(), "the place has a backup already: %s\n", to.Name)
			return nil
		}
		if err != nil {
			return err
		}
		job := online.Create{
			Client: c, Queues: queues, Store: store, Keys: k,
			Plan: archive.Manifest{Cluster: status.Cluster, Version: quorate.About("quoratectl"), VHost: scopeVHost(s, queues)},
		}
		if len(queues) > 0 {
			job.Plan.VHost = s.vhostOrDefault()
		}
		var m archive.Manifest
		err = s.asOperation(ctx, cmd, c, client.BackupJob, scopeOf(s, queues)+" to "+to.Name, func(ctx context.Context, seen func(online.Progress)) (err error) {
			job.Seen = seen
			m, err = job.Run(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("the backup is not complete: %w", err)
		}
		if err := s.printManifest(cmd.OutOrStdout(), &m); err != nil {
			return err
		}
		return lacking(&m)
	}
	return cmd
}

// lacking returns what a complete backup lacks; nil: nothing.
func lacking(m *archive.Manifest) error {
	var lacks []error
	if len(m.Unsteady) > 0 {
		lacks = append(lacks, fmt.Errorf("messages moved in a circle while these were copied, and may be missing: %v: make another backup when they are quiet", m.Unsteady))
	}
	if len(m.Missing) > 0 {
		lacks = append(lacks, fmt.Errorf("the backup has all but these queues, which could not be copied: %v: keep older backups that have them, and make another one when they can be", m.Missing))
	}
	if len(lacks) == 0 {
		return nil
	}
	return partDoneError{errors.Join(lacks...)}
}

// progress prints the progress of a long command, at most about once a second; tables only, so that scripts get
// nothing but the outcome.
func (s *session) progress(cmd *cobra.Command, format string, a ...any) {
	if s.output == outputTable && time.Since(s.reported) >= time.Second {
		s.reported = time.Now()
		printf(cmd.ErrOrStderr(), format+"\n", a...)
	}
}

// printManifest prints what a backup has.
func (s *session) printManifest(w io.Writer, m *archive.Manifest) error {
	if s.output != outputTable {
		b, err := json.Marshal(m)
		if err != nil {
			return err
		}
		var all map[string]any // YAML under the same names
		if err := json.Unmarshal(b, &all); err != nil {
			return err
		}
		return s.encode(w, all)
	}
	part := "all vhosts"
	if m.VHost != "" {
		part = fmt.Sprintf("vhost %q alone", m.VHost)
	}
	printf(w, "backup of cluster %s, %s, begun %s, ended %s, encrypted: %v, definitions: %v\n",
		m.Cluster, part, m.Began.Format(time.RFC3339), m.Ended.Format(time.RFC3339), m.Encrypted, m.Definitions != nil)
	for _, q := range m.Missing {
		printf(w, "it lacks %s\n", q)
	}
	return printList(s, w, []string{"vhost", "queue", "messages", "bytes"}, m.Queues, func(q archive.Queue) []string {
		return []string{q.VHost, q.Name, fmt.Sprint(q.Messages), fmt.Sprint(q.Bytes)}
	})
}

// newBackupShow makes `backup show`, which asks no cluster.
func newBackupShow(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "show PLACE", Short: "Show what a backup has, without checking it", Args: exactArgs("PLACE")}
	p := newPlace(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := p.open(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return errors.Join(s.printManifest(cmd.OutOrStdout(), &r.Manifest), r.Close())
	}
	return cmd
}

// newBackupVerify makes `backup verify`, which asks no cluster.
func newBackupVerify(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify PLACE", Short: "Read a whole backup and compare it with its checksums and counts", Args: exactArgs("PLACE"),
	}
	p := newPlace(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		inBackground(cmd.Context())
		r, err := p.open(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		done, messages := 0, uint64(0)
		err = r.Verify(cmd.Context(), func(q *archive.Queue) {
			done++
			messages += q.Messages
			s.progress(cmd, "%d of %d queues are read", done, len(r.Manifest.Queues))
		})
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
		printf(cmd.OutOrStdout(), "ok: %d queues with %d messages\n", done, messages)
		return nil
	}
	return cmd
}

// newBackupKey makes `backup key`, which asks no cluster.
func newBackupKey() *cobra.Command {
	return &cobra.Command{
		Use: "key FILE", Short: "Write a new key for encrypted backups to a file, and print its public half", Args: exactArgs("FILE"),
		Long: "Write a new key for encrypted backups to a file that must not exist, and print its public half. A file with only\n" +
			"the public half is enough for backup create, so that a machine that makes backups cannot read them.\n" +
			"Keys and files are those of age (https://age-encryption.org).",
		RunE: func(cmd *cobra.Command, args []string) error {
			public, err := archive.NewKey(args[0])
			if err == nil {
				printf(cmd.OutOrStdout(), "%s\n", public)
			}
			return err
		},
	}
}
