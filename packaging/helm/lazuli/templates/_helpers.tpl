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

{{- /* The sets of nodes, as JSON: one, or one for each zone. Their names have no zone, whose name may be long. */}}
{{- define "lazuli.sets" -}}
{{- $name := include "lazuli.name" . }}
{{- $sets := list }}
{{- range $i, $zone := .Values.zones }}
{{- $sets = append $sets (dict "name" (printf "%s-z%d" $name $i) "zone" $zone "nodes" (div (int $.Values.nodes) (len $.Values.zones))) }}
{{- end }}
{{- toJson (default (list (dict "name" $name "zone" "" "nodes" (int .Values.nodes))) $sets) }}
{{- end }}

{{- /* The nodes and their addresses, with zones, as --cluster-peers takes them. */}}
{{- define "lazuli.peers" -}}
{{- $service := printf "%s-nodes" (include "lazuli.name" .) }}
{{- $peers := list }}
{{- range $set := fromJsonArray (include "lazuli.sets" .) }}
{{- range $i := until (int $set.nodes) }}
{{- $peer := printf "%s-%d=%s-%d.%s:6222" $set.name $i $set.name $i $service }}
{{- $peers = append $peers (ternary (printf "%s@%s" $peer $set.zone) $peer (ne $set.zone "")) }}
{{- end }}
{{- end }}
{{- join "," $peers }}
{{- end }}
