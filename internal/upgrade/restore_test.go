package upgrade

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/backup/online"
	"github.com/quorate/quorate/client"
)

// Names of queues: what is backed up, and where it is restored.
const (
	keptQueue  = "kept"
	againQueue = "kept-again"
)

// backUp copies a queue with a message that has failed once, and returns where to.
func (r *roll) backUp(ctx context.Context) (string, error) {
	for _, q := range []string{keptQueue, againQueue} {
		if _, err := r.client.DeclareQueue(ctx, client.Queue{Name: q}); err != nil {
			return "", err
		}
	}
	if _, err := r.client.PublishOne(ctx, client.Message{RoutingKey: keptQueue, Body: []byte("m")}); err != nil {
		return "", err
	}
	m, err := r.client.Get(ctx, client.GetRequest{Queue: keptQueue})
	if err == nil && m == nil {
		err = errors.New("the message is not there")
	}
	if err == nil {
		err = r.client.Settle(ctx, client.SettleRequest{Token: m.Token, Decision: client.Decision{Kind: client.Requeue, Failed: true}})
	}
	if err != nil {
		return "", err
	}
	place := filepath.Join(r.t.TempDir(), "backup")
	store, err := (archive.Location{Name: place}).Create(ctx)
	if err != nil {
		return "", err
	}
	job := online.Create{Client: r.client, Store: store, Queues: []string{keptQueue}, Plan: archive.Manifest{VHost: "/"}, Seen: func(online.Progress) {}}
	_, err = job.Run(ctx)
	return place, err
}

// restore stores the message in the other queue, where it has its past.
func (r *roll) restore(ctx context.Context, place string) error {
	store, err := (archive.Location{Name: place}).Open(ctx)
	if err != nil {
		return err
	}
	from, err := archive.Open(ctx, store, nil)
	if err != nil {
		return err
	}
	job := online.Restore{
		Client: r.client, From: from, Run: "roll", Queues: []string{keptQueue}, VHost: "/", As: againQueue, NoDefinitions: true,
		Imported: func(client.ImportSummary) {}, Seen: func(online.RestoredQueue) {},
	}
	if err := errors.Join(job.Execute(ctx), from.Close()); err != nil {
		return err
	}
	m, err := r.client.Get(ctx, client.GetRequest{Queue: againQueue, AutoAck: true})
	if err == nil && (m == nil || m.DeliveryCount != 1 || m.AcquiredCount != 1) {
		err = fmt.Errorf("the restored message is %+v, and had failed once", m)
	}
	return err
}
