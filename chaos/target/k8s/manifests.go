package k8s

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/chaos/target/remote"
)

// object is part of a manifest.
type object = map[string]any

// manifest is the text of an object that this program makes, and takes back.
func (c *Cluster) manifest(api, kind, name string, spec object) string {
	text, err := json.MarshalIndent(object{
		"apiVersion": api, "kind": kind, "spec": spec,
		"metadata": object{
			"name": name, "namespace": c.options.Namespace,
			"labels": map[string]string{"app.kubernetes.io/managed-by": "quorate-chaos"},
		},
	}, "", "  ")
	if err != nil {
		return "" // strings, numbers and lists of them always have a form
	}
	return string(text) + "\n"
}

// policyName is the name of the policy that keeps in what a node sends.
func policyName(from string) string { return "quorate-chaos-" + from }

// policy lets a node send to all the world but the pods with these names and addresses. Policies add
// up: the ones that are there say who may be received from, and this one's links are closed at the
// sending end, where the chart says nothing.
func (c *Cluster) policy(from string, to map[string]string) string {
	var except4, except6 []string
	for _, name := range slices.Sorted(maps.Keys(to)) {
		switch ip := to[name]; {
		case strings.Contains(ip, ":"):
			except6 = append(except6, ip+"/128")
		case ip != "":
			except4 = append(except4, ip+"/32")
		}
	}
	block := func(cidr string, except []string) object {
		b := object{"cidr": cidr}
		if len(except) > 0 {
			b["except"] = except
		}
		return object{"ipBlock": b}
	}
	not := func(label string, values ...string) object {
		return object{"matchExpressions": []object{{"key": label, "operator": "NotIn", "values": values}}}
	}
	return c.manifest("networking.k8s.io/v1", "NetworkPolicy", policyName(from), object{
		"podSelector": object{"matchLabels": map[string]string{podLabel: from}},
		"policyTypes": []string{"Egress"},
		"egress": []object{{"to": []object{
			{"podSelector": not(podLabel, slices.Sorted(maps.Keys(to))...)},
			{"namespaceSelector": not("kubernetes.io/metadata.name", c.options.Namespace)},
			block("0.0.0.0/0", except4), block("::/0", except6),
		}}},
	})
}

// pauseName is the name of the pod that stops a node.
func pauseName(node string) string { return "quorate-chaos-pause-" + node }

// pauseStopped is what that pod says when the node is stopped.
const pauseStopped = "the node is stopped"

// pauseScript stops the node's processes, which the pod's uid in their control groups identifies, until
// the pod is ended, or for remote.DeadMan at the most.
const pauseScript = `pids=
for p in /proc/[0-9]*; do
  grep -q -e "$DASHED" -e "$UNDERSCORED" "$p/cgroup" 2>/dev/null && [ "$(cat "$p/comm")" = quorate ] && pids="$pids ${p#/proc/}"
done
[ -n "$pids" ] || { echo "there is no process quorate in pod $DASHED"; exit 1; }
trap 'kill -CONT $pids; exit 0' TERM INT
kill -STOP $pids && echo "` + pauseStopped + `"
sleep "$SECONDS_AT_MOST" & wait
kill -CONT $pids
`

// pausePod is a pod on the node's machine that sees the processes there.
func (c *Cluster) pausePod(node string, p *pod) string {
	uid := p.Metadata.UID
	variable := func(name, value string) object { return object{"name": name, "value": value} }
	return c.manifest("v1", "Pod", pauseName(node), object{
		"nodeName": p.Spec.NodeName, "hostPID": true, "restartPolicy": "Never", "automountServiceAccountToken": false,
		"terminationGracePeriodSeconds": 5, "tolerations": []object{{"operator": "Exists"}},
		"containers": []object{{
			"name": "pause", "image": c.options.PauseImage, "command": []string{"sh", "-c", pauseScript},
			"env": []object{
				variable("DASHED", uid), variable("UNDERSCORED", strings.ReplaceAll(uid, "-", "_")),
				variable("SECONDS_AT_MOST", seconds(remote.DeadMan)),
			},
			"securityContext": object{"privileged": true, "runAsUser": 0},
		}},
	})
}
