package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// VHost is a namespace with its settings (VH-1, VH-3).
type VHost struct {
	Name             string
	Description      string
	Tags             []string
	DefaultQueueType QueueType // of queues that name none
	Tracing          bool
	Protected        bool // cannot be deleted
	MergePolicies    bool // all matching policies count, not only the first
	DelayedPublish   bool // the header x-delay holds a message back (DLY-1)
	ImportDeaths     bool // death headers of publishers count
	RefuseUnknown    bool // unknown arguments are refused (C-9); from VersionUsers on
	VHostLimits
}

// PutVHost creates a vhost with its pre-declared exchanges, or changes the settings of an existing
// one (VH-2). Limits apply only to a new one; SetVHostLimits changes them.
type PutVHost struct {
	VHost
	OnlyNew bool // refuse to change one that exists
}

// DeleteVHost deletes a vhost with everything in it, unless it is protected (VH-2). A missing one
// is fine.
type DeleteVHost struct{ Name string }

// SetVHostLimits replaces the limits of a vhost (VH-4).
type SetVHostLimits struct {
	VHost  string
	Limits VHostLimits
}

// kind uses the newer kind only where RefuseUnknown is set, so that older nodes can read all other
// commands.
func (c *PutVHost) kind() commandKind {
	if c.RefuseUnknown {
		return kindPutStrictVHost
	}
	return kindPutVHost
}

func (*DeleteVHost) kind() commandKind    { return kindDeleteVHost }
func (*SetVHostLimits) kind() commandKind { return kindSetVHostLimits }

func (c *PutVHost) append(b []byte) []byte {
	return appendNewer(appendBool(appendVHost(b, &c.VHost), c.OnlyNew), c.each(), Since(c))
}

func (c *DeleteVHost) append(b []byte) []byte { return appendString(b, c.Name) }
func (c *SetVHostLimits) append(b []byte) []byte {
	return appendNewer(appendVHostLimits(appendString(b, c.VHost), c.Limits), c.Limits.each(), Since(c))
}

func newVHostRecord(name string) *VHost {
	return &VHost{Name: name, DefaultQueueType: QueueQuorum, VHostLimits: NoVHostLimits()}
}

// putVHost makes a vhost or replaces its settings. An existing one keeps its limits, which have a
// command of their own.
func (v *View) putVHost(c *PutVHost) (Reply, *Error) {
	e := Error{Code: CodePreconditionFailed, Kind: "vhost", Name: c.Name, VHost: c.Name}
	if err := c.check(e); err != nil {
		return Reply{}, err
	}
	rec := c.VHost
	h, exists := v.vhosts.get(c.Name)
	if !exists {
		v.vhosts = v.vhosts.set(c.Name, newVHost(&rec))
		return Reply{Created: true}, nil
	}
	if rec.VHostLimits = h.rec.VHostLimits; c.OnlyNew {
		return Reply{}, e.onlyNew(rec.Equal(h.rec))
	}
	h.rec = &rec
	v.vhosts = v.vhosts.set(c.Name, h)
	return Reply{}, nil
}

// Pristine reports whether the vhost is the initial one of every cluster, unchanged.
func (x *VHost) Pristine() bool {
	return x.Name == DefaultVHost && x.Equal(newVHostRecord(DefaultVHost))
}

// Equal reports whether two vhosts have the same settings and limits.
func (x *VHost) Equal(y *VHost) bool {
	a, b := *x, *y
	a.Tags, b.Tags = nil, nil
	return slices.Equal(x.Tags, y.Tags) && fmt.Sprint(a) == fmt.Sprint(b)
}

// onlyNew is the answer to a command that must not change an existing object.
func (e Error) onlyNew(same bool) *Error {
	if same {
		return nil
	}
	e.Reason = "exists with other properties; change it by itself, or delete it first"
	return &e
}

// check bounds what is stored.
func (x *VHost) check(e Error) *Error {
	switch {
	case x.Name == "":
		e.Arg, e.Reason = "name", "is empty"
		return &e
	case !e.nameFits(x.Name):
		return &e
	case x.DefaultQueueType != QueueQuorum && x.DefaultQueueType != QueueClassic:
		e.Arg, e.Value = "default_queue_type", strconv.Quote(string(x.DefaultQueueType))
		e.Reason = `want "quorum" or "classic"`
		return &e
	}
	if err := e.textFits("description", x.Description); err != nil {
		return err
	}
	if err := e.tagsFit(x.Tags); err != nil {
		return err
	}
	return x.VHostLimits.check(e)
}

// limitFits refuses limits below Unlimited.
func (e Error) limitFits(name string, n int64) *Error {
	if n >= Unlimited {
		return nil
	}
	e.Arg, e.Value, e.Reason = name, strconv.FormatInt(n, 10), "want 0 or more, or -1 for no limit"
	return &e
}

// textFits bounds a free text and demands valid UTF-8, as it ends up in JSON.
func (e Error) textFits(name, text string) *Error {
	switch {
	case len(text) > MaxTextBytes:
		e.Arg, e.Reason = name, fmt.Sprintf("%d bytes, the limit is %d", len(text), MaxTextBytes)
	case !utf8.ValidString(text):
		e.Arg, e.Reason = name, "is not valid UTF-8"
	default:
		return nil
	}
	return &e
}

// tagsFit bounds the number and the length of tags.
func (e Error) tagsFit(tags []string) *Error {
	if len(tags) > MaxTags {
		e.Arg, e.Reason = "tags", fmt.Sprintf("%d of them, the limit is %d", len(tags), MaxTags)
		return &e
	}
	for _, t := range tags {
		if err := e.textFits("tags", t); err != nil {
			return err
		}
	}
	return nil
}

// deleteVHost removes a vhost with all in it. Queues and parameters are stored outside of it as
// well and are taken out one by one; the declarers' counts follow.
func (v *View) deleteVHost(c *DeleteVHost) (Reply, *Error) {
	h, ok := v.vhosts.get(c.Name)
	if !ok {
		return Reply{}, nil
	}
	if h.rec.Protected {
		return Reply{}, &Error{
			Code: CodePreconditionFailed, Kind: "vhost", Name: c.Name, VHost: c.Name,
			Reason: "is protected from deletion; take the protection off first",
		}
	}
	h.queues.each(func(_ string, q *QueueRecord) bool {
		v.countDeclared(q, -1)
		v.queues = v.queues.without(q.UID)
		return true
	})
	for _, p := range v.parametersOf(c.Name) {
		v.parameters = v.parameters.without(p.identity())
	}
	v.vhosts = v.vhosts.without(c.Name)
	return Reply{Deleted: true}, nil
}

// setVHostLimits replaces all limits of the vhost at once. What exceeds a lowered limit stays
// (VH-4).
func (v *View) setVHostLimits(c *SetVHostLimits) (Reply, *Error) {
	h, ok := v.vhosts.get(c.VHost)
	if !ok {
		return Reply{}, noVHost(c.VHost)
	}
	if err := c.Limits.check(Error{Code: CodePreconditionFailed, Kind: "vhost", Name: c.VHost, VHost: c.VHost}); err != nil {
		return Reply{}, err
	}
	rec := *h.rec
	rec.VHostLimits = c.Limits
	h.rec = &rec
	v.vhosts = v.vhosts.set(c.VHost, h)
	return Reply{}, nil
}

// appendVHost writes a vhost with the limits of the first version, in commands and snapshots alike.
func appendVHost(b []byte, x *VHost) []byte {
	b = appendString(appendString(b, x.Name), x.Description)
	b = appendStrings(b, x.Tags)
	b = appendString(b, x.DefaultQueueType)
	for _, flag := range [...]bool{x.Tracing, x.Protected, x.MergePolicies, x.DelayedPublish, x.ImportDeaths} {
		b = appendBool(b, flag)
	}
	return appendVHostLimits(b, x.VHostLimits)
}

func appendVHostLimits(b []byte, l VHostLimits) []byte { return appendFirst(b, l.each()) }

// vhostRecord reads what appendVHost wrote.
func (r *reader) vhostRecord() VHost {
	return VHost{
		Name: r.string("vhost"), Description: r.string("description"), Tags: r.strings("tags"),
		DefaultQueueType: QueueType(r.string("default queue type")),
		Tracing:          r.bool("tracing"), Protected: r.bool("protected"), MergePolicies: r.bool("merge policies"),
		DelayedPublish: r.bool("delayed publish"), ImportDeaths: r.bool("import deaths"),
		VHostLimits: r.vhostLimits(),
	}
}

// putVHost reads a command of either kind; strict is the kind that refuses unknown arguments.
func (r *reader) putVHost(strict bool) *PutVHost {
	c := &PutVHost{VHost: r.vhostRecord(), OnlyNew: r.bool("only new")}
	c.RefuseUnknown = strict
	r.readNewer(c.each())
	return c
}

// setVHostLimits reads the command; newer limits follow those of the first version.
func (r *reader) setVHostLimits() *SetVHostLimits {
	c := &SetVHostLimits{VHost: r.string("vhost"), Limits: r.vhostLimits()}
	r.readNewer(c.Limits.each())
	return c
}
