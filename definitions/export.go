package definitions

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// RabbitVersion is the RabbitMQ release whose document format is written; importers look at it.
const RabbitVersion = "4.3.0"

// Origin is where a document comes from.
type Origin struct{ Cluster, Version string }

// head is what a document says about itself.
type head struct {
	RabbitVersion   string `json:"rabbit_version"`
	RabbitMQVersion string `json:"rabbitmq_version"`
	ProductName     string `json:"product_name"`
	ProductVersion  string `json:"product_version"`
	Format          string `json:"rabbitmq_definition_format"`
	Cluster         string `json:"original_cluster_name,omitempty"`
	VHost           string `json:"original_vhost_name,omitempty"`
	Explanation     string `json:"explanation"`
}

// What a vhost does with unknown arguments (C-9).
const (
	unknownWarn   = "warn"
	unknownRefuse = "refuse"
)

// The documents as written; names and their order are RabbitMQ's.
type (
	clusterDocument struct {
		head
		Users            []jsonUser            `json:"users"`
		VHosts           []jsonVHost           `json:"vhosts"`
		Permissions      []jsonPermission      `json:"permissions"`
		TopicPermissions []jsonTopicPermission `json:"topic_permissions"`
		Parameters       []jsonParameter       `json:"parameters"`
		GlobalParameters []jsonGlobal          `json:"global_parameters"`
		objects
	}
	vhostDocument struct {
		head
		Description      string          `json:"description"`
		DefaultQueueType string          `json:"default_queue_type"`
		Metadata         metadata        `json:"metadata"`
		Limits           any             `json:"limits"`
		Parameters       []jsonParameter `json:"parameters"`
		objects
	}
	objects struct {
		Policies  []jsonPolicy   `json:"policies"`
		Queues    []jsonQueue    `json:"queues"`
		Exchanges []jsonExchange `json:"exchanges"`
		Bindings  []jsonBinding  `json:"bindings"`
	}
	jsonUser struct {
		Name         string           `json:"name"`
		PasswordHash string           `json:"password_hash"`
		Algorithm    string           `json:"hashing_algorithm"`
		Tags         []string         `json:"tags"`
		Limits       map[string]int64 `json:"limits"`
	}
	metadata struct {
		Description      string   `json:"description"`
		Tags             []string `json:"tags"`
		DefaultQueueType string   `json:"default_queue_type"`
		Protected        bool     `json:"protected_from_deletion,omitempty"`
		Tracing          bool     `json:"tracing,omitempty"`
		MergePolicies    bool     `json:"merge_policies,omitempty"`
		DelayedPublish   bool     `json:"delayed_publish,omitempty"`
		ImportDeaths     bool     `json:"import_deaths,omitempty"`
		UnknownArguments string   `json:"unknown_arguments,omitempty"` // unknownWarn if absent
	}
	jsonVHost struct {
		Name             string   `json:"name"`
		Description      string   `json:"description"`
		Metadata         metadata `json:"metadata"`
		Tags             []string `json:"tags"`
		DefaultQueueType string   `json:"default_queue_type"`
		Limits           any      `json:"limits"`
	}
	jsonPermission struct {
		User      string `json:"user"`
		VHost     string `json:"vhost"`
		Configure string `json:"configure"`
		Write     string `json:"write"`
		Read      string `json:"read"`
	}
	jsonTopicPermission struct {
		User     string `json:"user"`
		VHost    string `json:"vhost"`
		Exchange string `json:"exchange"`
		Write    string `json:"write"`
		Read     string `json:"read"`
	}
	jsonParameter struct {
		Value     any    `json:"value"`
		VHost     string `json:"vhost,omitempty"`
		Component string `json:"component"`
		Name      string `json:"name"`
	}
	jsonGlobal struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
	}
	jsonPolicy struct {
		VHost      string        `json:"vhost,omitempty"`
		Name       string        `json:"name"`
		Pattern    string        `json:"pattern"`
		ApplyTo    string        `json:"apply-to"`
		Definition message.Table `json:"definition"`
		Priority   int64         `json:"priority"`
	}
	operatorPolicy struct {
		Pattern    string        `json:"pattern"`
		Definition message.Table `json:"definition"`
		Priority   int64         `json:"priority"`
		ApplyTo    string        `json:"apply-to"`
	}
	jsonQueue struct {
		Name       string        `json:"name"`
		VHost      string        `json:"vhost,omitempty"`
		Type       string        `json:"type"`
		Durable    bool          `json:"durable"`
		AutoDelete bool          `json:"auto_delete"`
		Arguments  message.Table `json:"arguments"`
		// DeclaredBy is not in RabbitMQ's format; RabbitMQ ignores it.
		DeclaredBy string `json:"declared_by,omitempty"`
	}
	jsonExchange struct {
		Name       string        `json:"name"`
		VHost      string        `json:"vhost,omitempty"`
		Type       string        `json:"type"`
		Durable    bool          `json:"durable"`
		AutoDelete bool          `json:"auto_delete"`
		Internal   bool          `json:"internal"`
		Arguments  message.Table `json:"arguments"`
	}
	jsonBinding struct {
		Source          string        `json:"source"`
		VHost           string        `json:"vhost,omitempty"`
		Destination     string        `json:"destination"`
		DestinationType string        `json:"destination_type"`
		RoutingKey      string        `json:"routing_key"`
		Arguments       message.Table `json:"arguments"`
	}
)

// Append appends the document of a catalog, or of one vhost unless that is "". Exclusive queues,
// pre-declared exchanges and the broker's internal objects are left out. The vhost must exist.
func Append(b []byte, v *catalog.View, vhost string, from Origin) ([]byte, error) {
	var document any
	h := head{
		RabbitVersion: RabbitVersion, RabbitMQVersion: RabbitVersion, ProductName: "Quorate", ProductVersion: from.Version,
		Format: FormatCluster, Cluster: from.Cluster, Explanation: fmt.Sprintf("Definitions of cluster '%s'", from.Cluster),
	}
	if vhost == "" {
		document = wholeDocument(v, h)
	} else {
		rec, ok := v.VHost(vhost)
		if !ok {
			return b, fmt.Errorf("definitions: vhost %q does not exist", vhost)
		}
		h.Format, h.Cluster, h.VHost, h.Explanation = FormatVHost, "", vhost, fmt.Sprintf("Definitions of virtual host '%s'", vhost)
		m := metadataOf(rec)
		document = &vhostDocument{
			head: h, Description: m.Description, DefaultQueueType: m.DefaultQueueType, Metadata: m, Limits: limitsOf(rec),
			Parameters: parametersOf(v, rec, ""), objects: objectsOf(v, vhost),
		}
	}
	out := bytes.NewBuffer(b)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(document); err != nil {
		return b, fmt.Errorf("definitions: %w", err)
	}
	return out.Bytes(), nil
}

// wholeDocument gathers what a cluster has. Lists are never nil: readers of RabbitMQ's documents
// expect [] and not null.
func wholeDocument(v *catalog.View, h head) *clusterDocument {
	d := &clusterDocument{
		head: h, Users: []jsonUser{}, VHosts: []jsonVHost{}, Permissions: []jsonPermission{},
		TopicPermissions: []jsonTopicPermission{}, Parameters: []jsonParameter{}, GlobalParameters: []jsonGlobal{},
		objects: objectsOf(v, ""),
	}
	for u := range v.Users() {
		d.Users = append(d.Users, jsonUser{
			Name: u.Name, PasswordHash: u.PasswordHash, Algorithm: u.Algorithm, Tags: list(u.Tags),
			Limits: set(u.NamedLimits()),
		})
	}
	for rec := range v.VHosts() {
		m := metadataOf(rec)
		d.VHosts = append(d.VHosts, jsonVHost{
			Name: rec.Name, Description: m.Description, Metadata: m, Tags: m.Tags, DefaultQueueType: m.DefaultQueueType, Limits: limitsOf(rec),
		})
		for p := range v.Permissions(rec.Name) {
			d.Permissions = append(d.Permissions, jsonPermission{p.User, p.VHost, p.Configure, p.Write, p.Read})
		}
		for p := range v.TopicPermissions(rec.Name) {
			d.TopicPermissions = append(d.TopicPermissions, jsonTopicPermission{p.User, p.VHost, p.Exchange, p.Write, p.Read})
		}
		d.Parameters = append(d.Parameters, parametersOf(v, rec, rec.Name)...)
	}
	for p := range v.Parameters("") {
		if p.Component == "" { // parameters of other components belong to the broker
			d.GlobalParameters = append(d.GlobalParameters, jsonGlobal{p.Name, json.RawMessage(p.Value)})
		}
	}
	return d
}

// list returns an empty list for nil, so that JSON has [] and not null.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// set leaves out limits that are not set.
func set(limits []catalog.NamedLimit) map[string]int64 {
	out := map[string]int64{}
	for _, l := range limits {
		if l.Value != catalog.Unlimited {
			out[l.Name] = l.Value
		}
	}
	return out
}

// metadataOf returns the settings of a vhost under the key metadata, where RabbitMQ has them;
// unknown keys there do not disturb it.
func metadataOf(h *catalog.VHost) metadata {
	m := metadata{
		Description: h.Description, Tags: list(h.Tags), DefaultQueueType: string(h.DefaultQueueType), Protected: h.Protected,
		Tracing: h.Tracing, MergePolicies: h.MergePolicies, DelayedPublish: h.DelayedPublish, ImportDeaths: h.ImportDeaths,
	}
	if h.RefuseUnknown {
		m.UnknownArguments = unknownRefuse
	}
	return m
}

// limitsOf returns an empty list where no limit is set, as RabbitMQ writes it.
func limitsOf(h *catalog.VHost) any {
	if l := vhostLimitsOf(h); len(l) > 0 {
		return l
	}
	return []int{}
}

func vhostLimitsOf(h *catalog.VHost) map[string]int64 {
	return set(h.NamedLimits())
}

// parametersOf returns a vhost's parameters, including operator policies and limits. named is ""
// where the document names no vhost.
func parametersOf(v *catalog.View, h *catalog.VHost, named string) []jsonParameter {
	out := []jsonParameter{}
	if l := vhostLimitsOf(h); len(l) > 0 {
		out = append(out, jsonParameter{l, named, componentVHostLimits, "limits"})
	}
	for p := range v.Policies(h.Name, true) {
		value := operatorPolicy{p.Pattern, p.Definition, p.Priority, string(p.ApplyTo)}
		out = append(out, jsonParameter{value, named, componentOperatorPolicy, p.Name})
	}
	for p := range v.Parameters(h.Name) {
		out = append(out, jsonParameter{json.RawMessage(p.Value), named, p.Component, p.Name})
	}
	return out
}

// declarerOf leaves out the name of a deleted user if another user now has that name: an import
// would give the queue to the wrong user (VH-17).
func declarerOf(v *catalog.View, q *catalog.QueueRecord) string {
	_, taken := v.User(q.DeclaredBy)
	if _, counts := v.DeclarerOf(q); taken && !counts {
		return ""
	}
	return q.DeclaredBy
}

// objectsOf gathers what lies in vhosts, of one vhost without its name or of all with theirs.
// Exclusive queues and their bindings, and queues that are being deleted, are left out: nobody
// could import them.
func objectsOf(v *catalog.View, only string) objects {
	o := objects{[]jsonPolicy{}, []jsonQueue{}, []jsonExchange{}, []jsonBinding{}}
	wanted := func(vhost string) bool { return only == "" || vhost == only }
	named := func(vhost string) string {
		if only != "" {
			return ""
		}
		return vhost
	}
	for h := range v.VHosts() {
		if !wanted(h.Name) {
			continue
		}
		for p := range v.Policies(h.Name, false) {
			o.Policies = append(o.Policies, jsonPolicy{named(h.Name), p.Name, p.Pattern, string(p.ApplyTo), p.Definition, p.Priority})
		}
	}
	for q := range v.Queues() {
		if wanted(q.VHost) && !q.Exclusive && q.DrainDeleting == 0 {
			o.Queues = append(o.Queues, jsonQueue{q.Name, named(q.VHost), string(q.Type), q.Durable, q.AutoDelete, withType(q), declarerOf(v, q)})
		}
	}
	for x := range v.Exchanges() {
		if wanted(x.VHost) && !x.Predeclared {
			o.Exchanges = append(o.Exchanges, jsonExchange{
				x.Name, named(x.VHost), exportedType(x), x.Durable, x.AutoDelete, x.Internal, x.Arguments,
			})
		}
	}
	for x := range v.Bindings() {
		if q, ok := v.Queue(x.VHost, x.Destination); !wanted(x.VHost) || x.DestinationKind == catalog.ToQueue && ok && q.Exclusive {
			continue
		}
		o.Bindings = append(o.Bindings, jsonBinding{
			x.Source, named(x.VHost), x.Destination, x.DestinationKind.String(), x.Key, x.Arguments,
		})
	}
	return o
}

// withType returns a queue's arguments with the type, which importers look for.
func withType(q *catalog.QueueRecord) message.Table {
	if _, named := q.Arguments.Get(argument.QueueType); named {
		return q.Arguments
	}
	return append(message.Table{{Name: argument.QueueType, Value: message.String(string(q.Type))}}, q.Arguments...)
}
