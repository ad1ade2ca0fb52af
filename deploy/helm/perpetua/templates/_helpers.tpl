{{- define "perpetua.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "perpetua.selector" -}}
app.kubernetes.io/name: perpetua
app.kubernetes.io/component: daemon
{{- if ne (include "perpetua.name" .) "perpetua" }}
app.kubernetes.io/instance: {{ include "perpetua.name" . }}
{{- end }}
{{- end -}}

{{- define "perpetua.labels" -}}
{{ include "perpetua.selector" . }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "perpetua.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "perpetua.pod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
# Not Always: that would open the state to its group at every mount, and Perpetua refuses such a state.
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "perpetua.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "perpetua.claim" -}}
accessModes: [{{ .Values.persistence.accessMode }}]
resources: {requests: {storage: {{ .Values.persistence.size }}}}
{{- with .Values.persistence.storageClass }}
storageClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* What a schema cannot say: values that would lose a state, or serve it twice. */ -}}
{{- define "perpetua.check" -}}
{{- $many := or (gt (int .Values.replicas) 1) .Values.keda.enabled -}}
{{- if and $many (not .Values.persistence.shared) -}}
{{- fail "replicas above 1, and keda, need persistence.shared: each pod would begin with an empty volume" -}}
{{- end -}}
{{- if and .Values.persistence.shared (not .Values.persistence.existingClaim) -}}
{{- fail "persistence.shared needs persistence.existingClaim: a ReadWriteMany claim with the state" -}}
{{- end -}}
{{- if .Values.keda.enabled -}}
{{- if lt (int .Values.keda.partitions) 1 -}}
{{- fail "keda.partitions must be set: how many partitions the query topic has" -}}
{{- end -}}
{{- if gt (int .Values.keda.minReplicas) (int .Values.keda.partitions) -}}
{{- fail "keda.minReplicas must not be above keda.partitions: a partition is served by one pod" -}}
{{- end -}}
{{- range $name := list "bootstrapServers" "topic" "consumerGroup" -}}
{{- if not (index $.Values.keda $name) -}}
{{- fail (printf "keda.%s must be set" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.init.enabled .Values.persistence.existingClaim -}}
{{- fail "init makes a claim; leave persistence.existingClaim empty" -}}
{{- end -}}
{{- end -}}
