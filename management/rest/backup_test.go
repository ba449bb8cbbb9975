package rest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/rest"
)

// Any node shows the backups and restores that clients of all nodes make, with what is copied and where, and how far they
// are; cancelling one has its client end it. Other operations are not among them.
func TestBackups(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := testcluster.Start(t, 3)
	a := on(t, rest.New(whole(c)), c, 0)
	follow := func(node int, kind client.JobKind, target string) *client.Job {
		cl, err := client.Dial(t.Context(), client.Config{Addresses: []string{c.Addrs()[node]}, FixedAddresses: true, ProbeTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		j, err := cl.FollowJob(t.Context(), client.JobRef{Kind: kind, Target: target})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	a.run([]row{
		{do: "GET /v1/backups", code: 200, want: has("[]")},
		{do: "POST /api/rebalance/queues", code: 202},
		{do: "GET /v1/backups", code: 200, want: has("[]")},
	})
	backup := follow(1, client.BackupJob, "all to s3://backups/today")
	restore := follow(2, client.RestoreJob, `vhost "x" from /backups/old`)
	backup.Report(client.JobProgress{Phase: "messages", Done: 7, Total: 30, Unit: "messages", Detail: "orders"})
	const copied = `"target":"all to s3://backups/today"`
	testcluster.Poll(t, "the progress is shown", func() error {
		if _, _, text := a.ask("", "GET /v1/backups?name=today&columns=kind,target,state,done,total,unit,detail,node", ""); text !=
			`[{"detail":"orders","done":7,"kind":"backup","node":"`+c.Name(1)+`","state":"running","target":"all to s3://backups/today","total":30,"unit":"messages"}]`+"\n" {
			return errors.New(text)
		}
		return nil
	})
	a.run([]row{
		{do: "GET /v1/backups", code: 200, want: has(copied, `"kind":"restore"`, "!rebalance")},
		{do: "GET /v1/backups?page=1&page_size=1&sort=kind", code: 200, want: has(`"total_count":2`, copied, "!restore")},
		{who: "manager", do: "GET /v1/backups", code: 403},
		{who: "nobody", do: "GET /v1/backups", code: 401},
		{do: "DELETE /v1/operations/" + restore.Operation(), code: 202},
	})
	select {
	case <-restore.Cancelled():
		restore.End(errors.New("it was cancelled"))
	case <-time.After(time.Minute):
		t.Fatal("the restore's client was not asked to end it")
	}
	backup.End(nil)
	testcluster.Poll(t, "both have ended", func() error {
		if _, _, text := a.ask("", "GET /v1/backups?columns=kind,state", ""); text != `[{"kind":"backup","state":"done"},{"kind":"restore","state":"cancelled"}]`+"\n" {
			return errors.New(text)
		}
		return nil
	})
	a.run([]row{{do: "GET /v1/backups?running", code: 200, want: has("[]")}})
}
