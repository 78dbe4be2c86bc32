{{/* The chart's name, or what replaces it, as a label's value. */}}
{{- define "mainstay.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
The prefix of every object's name. It has at most 42 characters, such that the longest suffix
of a Deployment's pods ("-manager", ReplicaSet hash, pod hash) stays within the 63 of a label.
*/}}
{{- define "mainstay.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 42 | trimSuffix "-" -}}
{{- else if contains (include "mainstay.name" .) .Release.Name -}}
{{- .Release.Name | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "mainstay.name" .) | trunc 42 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The name of the manager's Deployment and of what belongs to it. */}}
{{- define "mainstay.manager" -}}
{{- include "mainstay.fullname" . }}-manager
{{- end -}}

{{/* Labels that select the manager's pods: they never change in the life of a release. */}}
{{- define "mainstay.selector" -}}
app.kubernetes.io/name: {{ include "mainstay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: manager
{{- end -}}

{{/* Labels of every object. */}}
{{- define "mainstay.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "mainstay.selector" . }}
app.kubernetes.io/version: {{ regexReplaceAll "[^A-Za-z0-9_.-]" (.Values.image.tag | default .Chart.AppVersion) "_" | trunc 63 | quote }}
app.kubernetes.io/part-of: mainstay
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "mainstay.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "mainstay.manager" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The name of the webhooks' Service and of the Secret with their certificate. */}}
{{- define "mainstay.webhook" -}}
{{- include "mainstay.fullname" . }}-webhook
{{- end -}}

{{/* The names of our definitions, as a YAML list. */}}
{{- define "mainstay.definitions" -}}
{{- range $path, $_ := .Files.Glob "crds/*.yaml" }}
- {{ (fromYaml ($.Files.Get $path)).metadata.name }}
{{- end }}
{{- end -}}

{{/* The image reference: registry/repository:tag@digest, each part but the repository optional. */}}
{{- define "mainstay.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end -}}
{{- .Values.image.repository -}}
:{{ .Values.image.tag | default .Chart.AppVersion -}}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/*
The rules of one generated role, as YAML: (dict "root" $ "kind" "ClusterRole"). Which rights the
manager needs is written beside the calls that need them, in Go, and nowhere else.
*/}}
{{- define "mainstay.rules" -}}
{{- $kind := .kind -}}
{{- range $document := splitList "\n---\n" (.root.Files.Get "files/rbac/role.yaml") -}}
{{- $role := fromYaml $document -}}
{{- if eq (get $role "kind") $kind -}}
{{- required (printf "files/rbac/role.yaml has no rules for a %s" $kind) $role.rules | toYaml -}}
{{- end -}}
{{- end -}}
{{- end -}}
