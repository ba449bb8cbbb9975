{{/* Variables of the container: what differs between pods, and what is secret. */}}
{{- define "quorate.env" -}}
- name: QUORATE_NODE_ID
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
# The pod's name in the headless service survives every change of its IP.
- name: QUORATE_ADVERTISE__HOST
  value: $(QUORATE_NODE_ID).{{ include "quorate.fullname" . }}-headless
# Gossip carries IP addresses, and the name may still lead to the former one.
- name: QUORATE_ADVERTISE__GOSSIP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
# The administrator that a new cluster is founded with; later changes of the
# secret change no user.
- name: QUORATE_AUTH__DEFAULT_USER
  valueFrom:
    secretKeyRef:
      name: {{ include "quorate.userSecret" . }}
      key: username
- name: QUORATE_AUTH__DEFAULT_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ include "quorate.userSecret" . }}
      key: password
{{- if .Values.tls.enabled }}
- name: QUORATE_TLS__PEER__CERT
  value: /run/secrets/quorate-peer-tls/$(QUORATE_NODE_ID)/tls.crt
- name: QUORATE_TLS__PEER__KEY
  value: /run/secrets/quorate-peer-tls/$(QUORATE_NODE_ID)/tls.key
- name: QUORATE_TLS__PEER__CA
  value: /run/secrets/quorate-peer-tls/$(QUORATE_NODE_ID)/ca.crt
- name: QUORATE_LISTEN__AMQPS
  value: 0.0.0.0:5672
- name: QUORATE_TLS__CLIENT__CERT
  value: /run/secrets/quorate-client-tls/tls.crt
- name: QUORATE_TLS__CLIENT__KEY
  value: /run/secrets/quorate-client-tls/tls.key
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "quorate.mounts" -}}
- name: data
  mountPath: /var/lib/quorate
- name: config
  mountPath: /etc/quorate
  readOnly: true
- name: gossip
  mountPath: /run/secrets/quorate
  readOnly: true
{{- if include "quorate.definitionsSecret" . }}
- name: definitions
  mountPath: /run/secrets/quorate-definitions
  readOnly: true
{{- end }}
{{- if .Values.tls.enabled }}
- name: peer-tls
  mountPath: /run/secrets/quorate-peer-tls
  readOnly: true
- name: client-tls
  mountPath: /run/secrets/quorate-client-tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "quorate.volumes" -}}
{{- $name := include "quorate.fullname" . -}}
- name: config
  configMap:
    name: {{ $name }}-config
    defaultMode: 0444
- name: gossip
  secret:
    secretName: {{ include "quorate.gossipSecret" . }}
    defaultMode: 0440
    items:
      - key: gossip-key
        path: gossip-key
{{- with include "quorate.definitionsSecret" . }}
- name: definitions
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items:
      - key: definitions.json
        path: definitions.json
{{- end }}
{{- if .Values.tls.enabled }}
# Every pod has all nodes' pairs and uses its own. A mount of one pair alone (subPathExpr)
# would never see a renewed certificate: Kubernetes does not update such mounts.
- name: peer-tls
  projected:
    defaultMode: 0440
    sources:
      {{- range $i := until (int (max .Values.replicas .Values.tls.peerSlots)) }}
      - secret:
          name: {{ $name }}-{{ $i }}-peer-tls
          {{- if $.Values.tls.peerSlots }}
          optional: true
          {{- end }}
          items:
            - {key: tls.crt, path: {{ $name }}-{{ $i }}/tls.crt}
            - {key: tls.key, path: {{ $name }}-{{ $i }}/tls.key}
            - {key: ca.crt, path: {{ $name }}-{{ $i }}/ca.crt}
      {{- end }}
- name: client-tls
  secret:
    secretName: {{ $name }}-client-tls
    defaultMode: 0440
    items:
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
{{- end }}
{{- end -}}
