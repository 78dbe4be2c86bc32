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

{{/* The kinds that are on, as a YAML list in order. */}}
{{- define "mainstay.kinds" -}}
{{- $on := list -}}
{{- range $name, $kind := .Values.kinds -}}
{{- if $kind.enabled -}}{{- $on = append $on $name -}}{{- end -}}
{{- end -}}
{{- if not $on -}}{{- fail "kinds: at least one must be enabled, or the manager has nothing to do" -}}{{- end -}}
{{- toYaml $on -}}
{{- end -}}

{{/* The parts of this installation, each of which has its rights in files/rbac, as a YAML list. */}}
{{- define "mainstay.parts" -}}
{{- $parts := concat (list "shared") (include "mainstay.kinds" . | fromYamlArray) -}}
{{- if .Values.leaderElection.enabled -}}{{- $parts = append $parts "election" -}}{{- end -}}
{{- if eq (include "mainstay.defaultPolicy" .) "true" -}}{{- $parts = append $parts "defaultpolicy" -}}{{- end -}}
{{- if .Values.webhook.enabled -}}
{{- $parts = append $parts "webhooks" -}}
{{- if not .Values.certManager.enabled -}}{{- $parts = append $parts "certificates" -}}{{- end -}}
{{- else -}}
{{- $parts = append $parts "withdrawal" -}}
{{- end -}}
{{- toYaml $parts -}}
{{- end -}}

{{/* Whether the manager makes the default policy. */}}
{{- define "mainstay.defaultPolicy" -}}
{{- and .Values.defaultPolicy.create .Values.kinds.platformpolicy.enabled -}}
{{- end -}}

{{/*
The rules for one or several scopes of the parts that are on, as a YAML list that may be empty:
(dict "root" $ "scopes" (list "cluster")). Which rights the manager needs is written beside the calls that
need them, in Go, and nowhere else.
*/}}
{{- define "mainstay.rules" -}}
{{- $rules := list -}}
{{- range $part := include "mainstay.parts" .root | fromYamlArray -}}
{{- $rights := fromYaml (required (printf "files/rbac has no rights for %s" $part) ($.root.Files.Get (printf "files/rbac/%s.yaml" $part))) -}}
{{- range $scope := $.scopes -}}
{{- $rules = concat $rules (get $rights $scope | default list) -}}
{{- end -}}
{{- end -}}
{{- toYaml (uniq $rules) -}}
{{- end -}}

{{/* The name of the Service by which metrics are read, and of what belongs to it. */}}
{{- define "mainstay.metrics" -}}
{{- include "mainstay.fullname" . }}-metrics
{{- end -}}

{{/* true if metrics are served and what is made of another's API is wanted: (list $ VALUE API), VALUE auto, true or false. */}}
{{- define "mainstay.wanted" -}}
{{- $root := index . 0 -}}
{{- $value := toString (index . 1) -}}
{{- and $root.Values.metrics.enabled (or (eq $value "true") (and (eq $value "auto") ($root.Capabilities.APIVersions.Has (index . 2)))) -}}
{{- end -}}
