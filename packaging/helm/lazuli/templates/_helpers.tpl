{{- define "lazuli.name" -}}
{{- if contains "lazuli" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-lazuli" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "lazuli.selector" -}}
app.kubernetes.io/name: lazuli
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Front-ends have another name than the nodes, so that no service or policy of the nodes takes them for one. */}}
{{- define "lazuli.frontSelector" -}}
app.kubernetes.io/name: lazuli-front
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lazuli.labels" -}}
{{ include "lazuli.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The nodes and their addresses, as --cluster-peers takes them. */}}
{{- define "lazuli.peers" -}}
{{- $name := include "lazuli.name" . }}
{{- $peers := list }}
{{- range $i := until (int .Values.nodes) }}
{{- $peers = append $peers (printf "%s-%d=%s-%d.%s-nodes:6222" $name $i $name $i $name) }}
{{- end }}
{{- join "," $peers }}
{{- end }}
