#!/usr/bin/env bash
# Does to a Quorate cluster on Kubernetes what happens to one in production: restarts, a drained machine, lost pods and
# volumes, more and fewer pods, a backup, an upgrade; while clients publish and consume, and judge what they see.
# Needs bash and kubectl. docs/kubernetes.md describes it; --help lists the options.
set -euo pipefail

readonly namespace=quorate-smoke label=quorate-smoke
readonly all_steps=(restart drain kill all scale volume backup upgrade)

usage() {
  cat <<'TEXT'
usage: smoke.sh [OPTIONS]

Installs Quorate into the namespace quorate-smoke, hurts it there while clients work, and takes all away again.

  --yes                  do not ask
  --context NAME         context of kubectl; default: the current one
  --image IMAGE          default quorate/quorate:dev; the cluster's machines must be able to get it
  --upgrade-to IMAGE     another build for the step upgrade; default: the same one, with another annotation
  --overlay NAME         directory in deploy/k8s/overlays; default: the base with small nodes that may share a machine
  --storage-class NAME   default: the cluster's default class
  --steps A,B,C          some of restart, drain, kill, all, scale, volume, backup, upgrade; default: all of them
  --timeout SECONDS      for each wait; default 300
  --logs DIR             where logs go if a step fails; default: a new directory in TMPDIR
  --keep                 leave the namespace as it is at the end
  --reuse                use the namespace that --keep has left; what is in it is deleted first

The last line is "smoke: ok", with exit code 0, or "smoke: FAILED: STEP: REASON", with 1. 2: the command line is wrong.
TEXT
}

wrong() {
  printf 'smoke.sh: %s\ntry: smoke.sh --help\n' "$1" >&2
  exit 2
}

context='' image=quorate/quorate:dev upgrade_to='' overlay='' class='' timeout=300 logs='' yes='' keep='' reuse=''
steps=("${all_steps[@]}")

# read_options reads the command line.
read_options() {
  while (($# > 0)); do
    case $1 in
      --yes) yes=1 ;;
      --keep) keep=1 ;;
      --reuse) reuse=1 ;;
      -h | --help)
        usage
        exit 0
        ;;
      --context | --image | --upgrade-to | --overlay | --storage-class | --steps | --timeout | --logs)
        [[ -n ${2:-} ]] || wrong "$1 needs a value"
        case $1 in
          --context) context=$2 ;;
          --image) image=$2 ;;
          --upgrade-to) upgrade_to=$2 ;;
          --overlay) overlay=$2 ;;
          --storage-class) class=$2 ;;
          --steps) IFS=, read -r -a steps <<<"$2" ;;
          --timeout) timeout=$2 ;;
          --logs) logs=$2 ;;
        esac
        shift
        ;;
      *) wrong "there is no option $1" ;;
    esac
    shift
  done
  [[ $timeout =~ ^[1-9][0-9]*$ ]] || wrong "--timeout is $timeout: give seconds, such as 300"
  local s
  for s in "${steps[@]}"; do
    [[ " ${all_steps[*]} " == *" $s "* ]] || wrong "there is no step $s: there are ${all_steps[*]}"
  done
  [[ -z $overlay || ( $overlay != */* && -f $source/overlays/$overlay/kustomization.yaml ) ]] ||
    wrong "there is no overlay $overlay: there are $(cd "$source/overlays" && echo *)"
}

source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly source

k() { kubectl --context "$context" --namespace "$namespace" "$@"; }

# ctl runs quoratectl in the pod of the clients, which has the login in its environment.
ctl() { k exec smoke -- /quoratectl "$@"; }

say() { printf 'smoke: %s\n' "$*"; }

step=start reason='' machine='' work='' made='' replicas=3 mark=0 began=0

# fail ends the smoke test; finish says why.
fail() {
  reason=$1
  exit 1
}

# must runs a command and keeps what it prints; if the command fails, so does the smoke test.
must() {
  local out
  out=$("$@" 2>&1) || fail "$*: ${out##*$'\n'}"
  printf '%s\n%s\n' "$*" "$out" >>"$work/$step.log"
}

readonly never=9

# wait_for WHAT COMMAND... waits until the command succeeds, or returns $never.
wait_for() {
  local what=$1 until=$((SECONDS + timeout)) last code
  shift
  while true; do
    code=0
    last=$("$@" 2>&1) || code=$?
    last=${last##*$'\n'}
    ((code != 0)) || return 0
    ((code != never)) || fail "$what will not come: $last"
    ((SECONDS < until)) || fail "$what did not come within $timeout s${last:+; last: $last}"
    sleep 0.5
  done
}

# confirm has the user type the name of the context, unless --yes was given.
confirm() {
  if [[ -z $context ]]; then
    context=$(kubectl config current-context 2>&1) || wrong "kubectl has no current context: give --context"
  fi
  say "context $context, namespace $namespace, image $image, steps ${steps[*]}"
  [[ " ${steps[*]} " != *' drain '* ]] || say "the step drain cordons one machine for a while; it evicts pods of this namespace alone"
  [[ -z $yes ]] || return 0
  [[ -t 0 ]] || wrong "this is not a terminal: give --yes if the context $context is meant"
  local typed
  read -r -p "Type the name of the context to go on: " typed
  [[ $typed == "$context" ]] || wrong "this is not the name of the context: nothing was done"
}

# take_namespace makes the namespace, or takes over one that an earlier run has left.
take_namespace() {
  local whose
  if whose=$(kubectl --context "$context" get namespace "$namespace" -o "jsonpath={.metadata.labels.$label}" 2>"$work/error"); then
    [[ -n $reuse ]] || fail "the namespace $namespace exists: give --reuse if an earlier run has left it, or delete it"
    [[ $whose == yes ]] || fail "the namespace $namespace is not of this script: it lacks the label $label=yes"
    made=1
    must k delete statefulset,pod,pvc,service,configmap,secret,poddisruptionbudget,networkpolicy \
      -l app.kubernetes.io/name=quorate --timeout "${timeout}s"
    must k delete pod smoke --ignore-not-found --timeout "${timeout}s"
    return
  fi
  grep -qi 'not *found' "$work/error" || fail "$(tail -n 1 "$work/error")"
  must kubectl --context "$context" create namespace "$namespace"
  made=1
  must kubectl --context "$context" label namespace "$namespace" "$label=yes"
}

# secrets makes a key and an administrator that only this cluster has.
secrets() {
  k create secret generic quorate-gossip --from-literal=gossip-key="$(head -c 32 /dev/urandom | base64)" &&
    k create secret generic quorate-default-user --from-literal=username=smoke \
      --from-literal=password="$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')" &&
    k label secret quorate-gossip quorate-default-user app.kubernetes.io/name=quorate
}

# render IMAGE NOTE writes the overlay that is applied. Paths in it are those of a copy, because kustomize reads only
# below the directory that it is called for.
render() {
  local to=$work/k8s/overlays/smoke name=$1 version=newTag tag=latest
  case $name in
    *@*) version=digest tag=${name#*@} name=${name%%@*} ;;
    *) if [[ ${name##*/} == *:* ]]; then tag=${name##*:} name=${name%:*}; fi ;;
  esac
  mkdir -p "$work/k8s"
  cp -R "$source/base" "$source/components" "$source/overlays" "$work/k8s/"
  mkdir -p "$to"
  cp "$source/overlays/dev/stateful-set.yaml" "$to/small.yaml"
  {
    printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n'
    if [[ -n $overlay ]]; then
      printf 'resources: [../%s]\n' "$overlay"
    else
      printf 'resources: [../../base]\n'
    fi
    printf 'images: [{name: quorate/quorate, newName: "%s", %s: "%s"}]\n' "$name" "$version" "$tag"
    printf 'replicas: [{name: quorate, count: %d}]\n' "$replicas"
    printf 'patches:\n'
    [[ -n $overlay ]] || printf '  - path: small.yaml\n'
    printf '  - patch: |-\n      {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: quorate}, spec: {template: {metadata:\n'
    printf '      {labels: {%s: "yes"}, annotations: {%s: "%s"}}}}}\n' "$label" "$label" "$2"
    if [[ -n $class ]]; then
      printf '  - target: {kind: StatefulSet, name: quorate}\n    patch: |-\n'
      printf '      - {op: add, path: /spec/volumeClaimTemplates/0/spec/storageClassName, value: "%s"}\n' "$class"
    fi
  } >"$to/kustomization.yaml"
}

# apply applies what render wrote.
apply() { must k apply -k "$work/k8s/overlays/smoke"; }

readonly ours=app.kubernetes.io/name=quorate,app.kubernetes.io/component=node

# pods lists the nodes' pods: name, UID, machine, Ready, deletion.
pods() {
  k get pods -l "$ours" -o \
    'jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.spec.nodeName} {.status.conditions[?(@.type=="Ready")].status} {.metadata.deletionTimestamp}{"\n"}{end}'
}

# ready N [OLD] says whether there are N pods that are ready, none of them with a UID in OLD.
ready() {
  local now
  now=$(pods) || return 1
  awk -v want="$1" -v old=" ${2:-} " '
    NF == 4 && $4 == "True" && !index(old, " " $2 " ") { n++ }
    { seen++ }
    END { if (n != want || seen != want) { printf "of %d pods %d are new and ready, %d wanted\n", seen, n, want; exit 1 } }' <<<"$now"
}

# uids returns the UIDs of a pod, or of all.
uids() { pods | awk -v name="${1:-}" 'name == "" || $1 == name { printf "%s ", $2 }'; }

# well says whether any one node could be taken down now.
well() { ctl upgrade check; }

# clients starts what publishes and consumes until it is stopped.
clients() {
  local pod=$work/clients.yaml
  cat >"$pod" <<YAML
apiVersion: v1
kind: Pod
metadata:
  name: smoke
  labels: {$label: clients}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: clients
      image: "$image"
      imagePullPolicy: IfNotPresent
      command: [/quoratectl]
      args: [chaos, watch, --confirm, quorate, --out, /smoke/watch, --http-port, "0", --rate, "80", --time, 6h]
      env:
        - {name: HOME, value: /smoke}
        - {name: QUORATE_ADDRESSES, value: "quorate:7070"}
        - {name: QUORATE_USER, valueFrom: {secretKeyRef: {name: quorate-default-user, key: username}}}
        - {name: QUORATE_PASSWORD, valueFrom: {secretKeyRef: {name: quorate-default-user, key: password}}}
      resources:
        requests: {cpu: 100m, memory: 128Mi}
        limits: {memory: 1Gi}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: work, mountPath: /smoke}
  volumes:
    - {name: work, emptyDir: {}}
YAML
  must k apply -f "$pod"
  wait_for "a confirm to the clients" confirmed
}

# confirmed says whether clients were confirmed anything, or never will be.
confirmed() {
  k logs smoke | grep -q '^at .*all together' && return
  ! ended || {
    k logs smoke
    return "$never"
  }
  return 1
}

# lines counts the lines with pauses so far.
lines() { k logs smoke | grep -c '^at '; }

# grown N says whether there are more than N such lines, or never will be.
grown() {
  (($(lines) > $1)) && return
  ! ended || {
    echo "the clients have ended, see the log of pod smoke"
    return "$never"
  }
  return 1
}

# ended says whether the clients have.
ended() { [[ $(k get pod smoke -o 'jsonpath={.status.phase}') =~ ^(Succeeded|Failed)$ ]]; }

# available says whether all pods have been ready for as long as the StatefulSet asks for. Those that have not are
# replaced by a rollout at once and together.
available() { [[ $(k get statefulset quorate -o 'jsonpath={.status.availableReplicas}') == "$replicas" ]]; }

# begin STEP begins a step: its pauses count from here on.
begin() {
  step=$1
  wait_for "$replicas pods that have been ready for a while" available
  mark=$(lines)
  began=$SECONDS
}

# conclude TEXT ends a step, once the nodes are well again and the clients have reported: it prints the step's figures.
conclude() {
  local text="$1 after $((SECONDS - began)) s" so_far
  wait_for "a cluster that is well" well
  so_far=$(lines)
  wait_for "a report of the clients" grown $((so_far + 1))
  say "$step: $text; longest pauses of publishers: $(pauses)"
}

# pauses prints the longest pause of each class of clients since begin.
pauses() {
  k logs smoke | grep '^at ' | tail -n "+$((mark + 1))" | awk -F', ' '
    {
      for (i = 3; i <= NF; i++) {
        n = split($i, word, " ")
        class = substr($i, 1, length($i) - length(word[n]) - 1)
        if (!(class in longest)) { order[++classes] = class; longest[class] = 0 }
        if (word[n] + 0 > longest[class]) longest[class] = word[n] + 0
      }
    }
    END { for (i = 1; i <= classes; i++) printf "%s%s %.3f s", (i > 1 ? ", " : ""), order[i], longest[order[i]] }'
}

# rolled waits until the StatefulSet has replaced its pods.
rolled() { must k rollout status statefulset/quorate --timeout "$((timeout * replicas))s"; }

install() {
  step=install began=$SECONDS
  take_namespace
  must secrets
  render "$image" first
  apply
  wait_for "3 pods that are ready" ready 3
  say "install: 3 pods are ready after $((SECONDS - began)) s"
  step=clients began=$SECONDS
  clients
  wait_for "a cluster that is well" well
  say "clients: the first confirm after $((SECONDS - began)) s"
}

do_restart() {
  local old
  old=$(uids)
  must k rollout restart statefulset/quorate
  rolled
  wait_for "$replicas new pods that are ready" ready "$replicas" "$old"
  conclude "$replicas pods were replaced one after another"
}

# do_drain drains the machine of one pod. With several pods on it, only this one is evicted: the next could not move
# before the first has come back.
do_drain() {
  local pod=quorate-1 old selector here cordoned
  old=$(uids "$pod")
  machine=$(pods | awk -v pod="$pod" '$1 == pod { print $3 }')
  cordoned=$(kubectl --context "$context" get node "$machine" -o 'jsonpath={.spec.unschedulable}')
  if [[ $cordoned == true ]]; then
    local is=$machine
    machine=''
    fail "the machine $is of $pod is cordoned already: uncordon it, or leave the step out"
  fi
  here=$(pods | awk -v machine="$machine" '$3 == machine' | wc -l)
  selector=$label=yes
  ((here == 1)) || selector+=,statefulset.kubernetes.io/pod-name=$pod
  must kubectl --context "$context" drain "$machine" --pod-selector "$selector" --ignore-daemonsets --delete-emptydir-data \
    --timeout "${timeout}s"
  local took=$((SECONDS - began))
  uncordon || fail "the machine $machine cannot be opened again"
  wait_for "$replicas pods that are ready" ready "$replicas" "$old"
  conclude "$pod was evicted within $took s, and all pods are ready"
}

# uncordon opens the machine that do_drain has closed.
uncordon() {
  [[ -n $machine ]] || return 0
  kubectl --context "$context" uncordon "$machine" >>"$work/drain.log" 2>&1 || return 1
  machine=''
}

do_kill() {
  local pod old
  # The pod with most leaders: the first column of nodes ls is the node, the last but one the number of leaders.
  pod=$(ctl nodes ls | awk 'NR > 1 && $(NF - 1) + 0 >= most { most = $(NF - 1) + 0; pod = $1 } END { print pod }')
  old=$(uids "$pod")
  must k delete pod "$pod" --grace-period=0 --force
  wait_for "$replicas pods that are ready" ready "$replicas" "$old"
  conclude "$pod, which led most queues, was killed, and is back"
}

do_all() {
  local old
  old=$(uids)
  must k delete pods -l "$ours" --wait=false
  wait_for "$replicas new pods that are ready" ready "$replicas" "$old"
  conclude "all pods were deleted at once, and all are back"
}

# nodes N says whether N nodes run, as the cluster sees it.
nodes() {
  local n
  n=$(ctl nodes ls | grep -c ' running ')
  [[ $n == "$1" ]] || {
    echo "$n nodes run"
    return 1
  }
}

scale_to() {
  replicas=$1
  must k scale statefulset quorate --replicas "$replicas"
  wait_for "$replicas pods that are ready" ready "$replicas"
  wait_for "$replicas running nodes" nodes "$replicas"
}

# remove NODE OTHERS takes a node out of the cluster for good, before its pod goes.
remove() { must ctl nodes drain "$1" --remove ${2:+--exclude "$2"} --confirm "$1" --timeout "${timeout}s"; }

do_scale() {
  scale_to 5
  say "scale: 5 nodes run after $((SECONDS - began)) s"
  wait_for "a cluster that is well" well
  remove quorate-4 quorate-3
  remove quorate-3
  scale_to 3
  must k delete pvc data-quorate-3 data-quorate-4 --timeout "${timeout}s"
  say "scale: 3 nodes run after $((SECONDS - began)) s"
  scale_to 4
  conclude "3, 5, 3, and again 4 nodes run"
}

do_volume() {
  local pod=quorate-2 old claim
  old=$(uids "$pod")
  claim=$(k get pvc "data-$pod" -o 'jsonpath={.metadata.uid}')
  must k delete pvc "data-$pod" --wait=false
  must k delete pod "$pod" --timeout "${timeout}s"
  wait_for "a node $pod that is refused with its empty volume" refused "$pod" "$claim"
  must ctl nodes replace "$pod" --dry-run
  must ctl nodes replace "$pod" --confirm "$pod" --timeout "${timeout}s"
  wait_for "$replicas pods that are ready" ready "$replicas" "$old"
  conclude "$pod lost its volume and was rebuilt from the others"
}

# refused NODE CLAIM says whether the node has another claim than that, and waits to be replaced.
refused() {
  local now
  now=$(k get pvc "data-$1" -o 'jsonpath={.metadata.uid}') || return 1
  [[ $now != "$2" ]] || {
    echo "the claim is the old one"
    return 1
  }
  ctl nodes ls | grep "^$1 .* refused "
}

readonly messages=1000

# user is the administrator, of this script's secret or of the overlay's.
user() { k get secret quorate-default-user -o 'jsonpath={.data.username}' | base64 --decode; }

do_backup() {
  local v
  for v in smoke smoke-restored; do
    must ctl vhost put "$v"
    must ctl permission set "$(user)" '.*' '.*' '.*' --vhost "$v"
  done
  must ctl queue declare kept --vhost smoke
  must ctl publish kept message --count "$messages" --vhost smoke
  must ctl backup create /smoke/backup --vhost smoke
  must ctl backup verify /smoke/backup
  must ctl backup restore /smoke/backup --vhost smoke --into-vhost smoke-restored
  local restored
  restored=$(ctl queue list --vhost smoke-restored -o yaml | awk '$1 == "messages_ready:" { print $2 }')
  [[ $restored == "$messages" ]] || fail "$messages messages were copied, and ${restored:-none} restored"
  conclude "$restored messages were copied, checked and restored into another vhost"
}

do_upgrade() {
  local old
  old=$(uids)
  render "${upgrade_to:-$image}" second
  apply
  rolled
  wait_for "$replicas new pods that are ready" ready "$replicas" "$old"
  conclude "$replicas pods were replaced, and $(ctl upgrade status | head -n 1)"
}

# verdict has the clients drain their queues and judge what they saw.
verdict() {
  step=verdict
  must ctl chaos stop /smoke/watch
  wait_for "the verdict of the clients" ended
  k logs smoke | grep -v '^at ' >"$work/verdict.log" || true
  say "verdict: $(grep '^longest pauses' "$work/verdict.log" || true)"
  [[ $(k get pod smoke -o 'jsonpath={.status.phase}') == Succeeded ]] ||
    fail "$(grep -m 1 -E '^history is|quoratectl:' "$work/verdict.log" || echo 'the clients say nothing'); the log of pod smoke names the messages"
  say "verdict: $(grep '^history is' "$work/verdict.log"): $(grep -m 1 '^published' "$work/verdict.log")"
}

# collect saves what explains a failure.
collect() {
  [[ -n $logs ]] || logs=$(mktemp -d "${TMPDIR:-/tmp}/quorate-smoke-XXXXXX")
  mkdir -p "$logs"
  cp "$work"/*.log "$logs/" 2>/dev/null || true
  if [[ -n $made ]]; then
    {
      k get all,pvc -o wide
      k describe pods
      k get events --sort-by .metadata.creationTimestamp
    } >"$logs/cluster.txt" 2>&1 || true
    local pod
    for pod in $(k get pods -o 'jsonpath={.items[*].metadata.name}' 2>/dev/null); do
      k logs "$pod" >"$logs/$pod.log" 2>&1 || true
      k logs "$pod" --previous >"$logs/$pod.previous.log" 2>/dev/null || rm -f "$logs/$pod.previous.log"
    done
    ctl nodes ls >"$logs/nodes.txt" 2>&1 || true
    ctl doctor >"$logs/doctor.txt" 2>&1 || true
  fi
  say "look at $logs: cluster.txt, and the log of each pod"
}

# finish runs at every end. What it says last counts.
finish() {
  local code=$?
  trap - EXIT INT TERM
  set +e
  [[ $code == 0 || -n $reason ]] || reason="ended with code $code"
  if ! uncordon; then
    reason="${reason:+$reason; }the machine $machine is still cordoned: kubectl uncordon $machine"
    code=1
  fi
  [[ -z $reason ]] || collect
  if [[ -n $made && -z $keep ]]; then
    if ! kubectl --context "$context" delete namespace "$namespace" --timeout "${timeout}s" >"$work/cleanup.log" 2>&1; then
      [[ -n $reason ]] || step=cleanup reason="the namespace $namespace is still there: $(tail -n 1 "$work/cleanup.log")"
    fi
  elif [[ -n $made ]]; then
    say "the namespace $namespace is left: smoke.sh --reuse uses it again"
  fi
  rm -rf "$work"
  if [[ -n $reason ]]; then
    say "FAILED: $step: $reason"
    exit 1
  fi
  say ok
}

main() {
  read_options "$@"
  confirm
  work=$(mktemp -d "${TMPDIR:-/tmp}/quorate-smoke-work-XXXXXX")
  trap finish EXIT
  trap 'fail interrupted' INT TERM
  trap 'reason=${reason:-line $LINENO: $BASH_COMMAND}' ERR
  set -E
  install
  local s
  for s in "${steps[@]}"; do
    begin "$s"
    "do_$s"
  done
  verdict
}

main "$@"
