{{- define "quorate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "quorate.selectorLabels" -}}
app.kubernetes.io/component: node
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/name: quorate
{{- end -}}

{{- define "quorate.labels" -}}
{{ include "quorate.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "quorate.gossipSecret" -}}
{{- .Values.gossip.existingSecret | default (printf "%s-gossip" (include "quorate.fullname" .)) -}}
{{- end -}}

{{- define "quorate.userSecret" -}}
{{- .Values.defaultUser.existingSecret | default (printf "%s-default-user" (include "quorate.fullname" .)) -}}
{{- end -}}

{{- define "quorate.definitionsSecret" -}}
{{- if .Values.definitions.existingSecret -}}
{{- .Values.definitions.existingSecret -}}
{{- else if .Values.definitions.document -}}
{{- printf "%s-definitions" (include "quorate.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* The node's file. What differs between pods comes from the environment. */}}
{{- define "quorate.config" -}}
{{- $name := include "quorate.fullname" . -}}
{{- $config := dict
  "data_dir" "/var/lib/quorate"
  "cluster" (dict
    "name" $name
    "expect" .Values.replicas
    "join" (list (printf "%s-headless:7072" $name) (printf "%s-join:7072" $name))
    "gossip_key_file" "/run/secrets/quorate/gossip-key")
  "listen" (dict
    "client" "0.0.0.0:7070"
    "peer" "0.0.0.0:7071"
    "gossip" "0.0.0.0:7072"
    "http" "0.0.0.0:7073"
    "management" "0.0.0.0:15672")
  "timeouts" (dict "drain" (printf "%ds" (int .Values.drainSeconds)))
-}}
{{- if include "quorate.definitionsSecret" . -}}
{{- $_ := set $config "definitions" (dict "file" "/run/secrets/quorate-definitions/definitions.json") -}}
{{- end -}}
{{- mergeOverwrite $config (deepCopy .Values.config) | toYaml -}}
{{- end -}}
