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

{{/* Labels of every object. The chart's own win: what selects rests on them. */}}
{{- define "mainstay.labels" -}}
{{- merge (include "mainstay.ownLabels" . | fromYaml) (deepCopy .Values.commonLabels) | toYaml -}}
{{- end -}}

{{- define "mainstay.ownLabels" -}}
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

{{/* The name of what is made, for a moment, by an uninstallation, and its labels: no selector may find it. */}}
{{- define "mainstay.uninstall" -}}
{{- include "mainstay.fullname" . }}-uninstall
{{- end -}}

{{- define "mainstay.uninstallLabels" -}}
{{- merge (dict "app.kubernetes.io/component" "uninstall") (include "mainstay.labels" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "mainstay.uninstallAccount" -}}
{{- if .Values.serviceAccount.create -}}{{ include "mainstay.uninstall" . }}{{- else -}}{{ .Values.serviceAccount.name }}{{- end -}}
{{- end -}}

{{/* The name of the webhooks' Service and of the Secret with their certificate. */}}
{{- define "mainstay.webhook" -}}
{{- include "mainstay.fullname" . }}-webhook
{{- end -}}

{{/*
A definition, given as the text of its file, without the schemas and selectable fields of its versions: schemas are nine tenths of all
that rendering would parse. In a version, "served" follows these, because controller-gen sorts the fields.
*/}}
{{- define "mainstay.definition" -}}
{{- $parts := splitList "\n    schema:\n" . -}}
{{- first $parts -}}
{{- range rest $parts }}
{{- if not (contains "\n    served:" .) }}{{ fail "a version of a definition has no field \"served\" after its schema" }}{{ end }}
    served:{{ (splitn "\n    served:" 2 .)._1 }}
{{- end -}}
{{- end -}}

{{/* The names of our definitions, as a YAML list. */}}
{{- define "mainstay.definitions" -}}
{{- range $path, $_ := .Files.Glob "crds/*.yaml" }}
- {{ (include "mainstay.definition" ($.Files.Get $path) | fromYaml).metadata.name }}
{{- end }}
{{- end -}}

{{/* Those of them that have several versions. */}}
{{- define "mainstay.convertedDefinitions" -}}
{{- range $path, $_ := .Files.Glob "crds/*.yaml" }}
{{- $definition := include "mainstay.definition" ($.Files.Get $path) | fromYaml }}
{{- if gt (len $definition.spec.versions) 1 }}
- {{ $definition.metadata.name }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The environments, each with its aliases: production:prod. */}}
{{- define "mainstay.environments" -}}
{{- $all := list }}
{{- range .Values.environments }}{{ $all = append $all (join ":" (prepend (default list .aliases) .name)) }}{{ end }}
{{- join "," $all -}}
{{- end -}}

{{/* The image reference: registry/repository:tag@digest, each part but the repository optional. */}}
{{- define "mainstay.image" -}}
{{- include "mainstay.reference" (merge (dict "tag" (.Values.image.tag | default .Chart.AppVersion)) .Values.image) -}}
{{- end -}}

{{- define "mainstay.reference" -}}
{{- with .registry }}{{ . }}/{{ end -}}
{{- .repository -}}:{{ .tag -}}
{{- with .digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/*
The part of a pod's spec by which kubectl proxy has the only credentials; empty if the ambassador is off. With a restart
policy of its own it starts before the other container and ends after it.
*/}}
{{- define "mainstay.ambassador" -}}
{{- with .Values.ambassador -}}
{{- if .enabled -}}
volumes:
  - name: credentials
    projected:
      sources:
        - serviceAccountToken:
            path: token
            expirationSeconds: 3607
        - configMap:
            name: kube-root-ca.crt
            items:
              - key: ca.crt
                path: ca.crt
        - downwardAPI:
            items:
              - path: namespace
                fieldRef:
                  fieldPath: metadata.namespace
initContainers:
  - name: ambassador
    restartPolicy: Always
    image: {{ include "mainstay.reference" .image | quote }}
    imagePullPolicy: {{ .image.pullPolicy }}
    args:
      - proxy
      - --address=127.0.0.1
      - --port=8001
    volumeMounts:
      - name: credentials
        mountPath: /var/run/secrets/kubernetes.io/serviceaccount
        readOnly: true
    {{- with .resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    terminationMessagePolicy: FallbackToLogsOnError
    securityContext:
      {{- include "mainstay.containerSecurity" . | nindent 6 }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What every container of ours runs with, and every pod. */}}
{{- define "mainstay.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}

{{- define "mainstay.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Where pods of ours may run, but for affinity. */}}
{{- define "mainstay.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
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
{{- /*
What kinds share: UsesWorkloads and Demands of their registrations, and what the manager grants to the instances of databases, and so has to
have itself.
*/ -}}
{{- $uses := dict
  "appconfig" (list "workload" "configuration")
  "cache" (list "instance")
  "clusterinstrumentation" (list "workload" "injection")
  "configmonitor" (list "workload" "configuration")
  "instrumentation" (list "workload" "injection")
  "postgresql" (list "instance")
-}}
{{- range $kind, $shared := $uses -}}
{{- if has $kind $parts -}}{{- $parts = concat $parts $shared | uniq -}}{{- end -}}
{{- end -}}
{{- /* What the stacks may do to their components, for each kind that is on. */ -}}
{{- if has "appstack" $parts -}}
{{- range $kind := list "appconfig" "cache" "configmonitor" "postgresql" "webapp" -}}
{{- if has $kind $parts -}}{{- $parts = append $parts (printf "appstack%s" $kind) -}}{{- end -}}
{{- end -}}
{{- if .Values.kinds.appstack.objects -}}{{- $parts = append $parts "appstackobjects" -}}{{- end -}}
{{- end -}}
{{- if .Values.leaderElection.enabled -}}{{- $parts = append $parts "election" -}}{{- end -}}
{{- if eq (include "mainstay.defaultPolicy" .) "true" -}}{{- $parts = append $parts "defaultpolicy" -}}{{- end -}}
{{- if .Values.webhook.enabled -}}
{{- $parts = append $parts "webhooks" -}}
{{- else -}}
{{- $parts = append $parts "withdrawal" -}}
{{- if has "injection" $parts -}}{{- $parts = append $parts "injectiondirect" -}}{{- end -}}
{{- end -}}
{{- $served := include "mainstay.served" . | fromYamlArray -}}
{{- /* Also where one is kept: a manager of before an upgrade that served nothing may still ask whether one was left. */ -}}
{{- $parts = append $parts "apiservicewithdrawal" -}}
{{- if $served -}}{{- $parts = append $parts "apiservice" -}}{{- end -}}
{{- /* Of the webhooks, and of our own API server. */ -}}
{{- if and (or .Values.webhook.enabled $served) (not .Values.certManager.enabled) -}}{{- $parts = append $parts "certificates" -}}{{- end -}}
{{- toYaml $parts -}}
{{- end -}}

{{/* The namespaces whose Secrets the manager may read, as a YAML list; empty while no kind that is on has a use for them. */}}
{{- define "mainstay.secretNamespaces" -}}
{{- $granted := list -}}
{{- if has "configuration" (include "mainstay.parts" . | fromYamlArray) -}}
{{- range $namespace := .Values.secrets.namespaces -}}
{{- if and $.Values.watchNamespaces (not (has $namespace $.Values.watchNamespaces)) -}}
{{- fail (printf "secrets.namespaces: Invalid value: %s: must be one of watchNamespaces (%s): add it there, or remove it here" $namespace (join ", " $.Values.watchNamespaces)) -}}
{{- end -}}
{{- $granted = append $granted $namespace -}}
{{- end -}}
{{- end -}}
{{- toYaml $granted -}}
{{- end -}}

{{/* Whether the manager makes the default policy. */}}
{{- define "mainstay.defaultPolicy" -}}
{{- and .Values.defaultPolicy.create .Values.kinds.platformpolicy.enabled -}}
{{- end -}}

{{/*
The rules for one or several scopes of the parts that are on, as a YAML list that may be empty:
(dict "root" $ "scopes" (list "cluster")), and "parts" for others than those. Which rights the manager needs is written beside the calls that
need them, in Go, and nowhere else.
*/}}
{{- define "mainstay.rules" -}}
{{- $rules := list -}}
{{- range $part := .parts | default (include "mainstay.parts" .root | fromYamlArray) -}}
{{- $rights := fromYaml (required (printf "files/rbac has no rights for %s" $part) ($.root.Files.Get (printf "files/rbac/%s.yaml" $part))) -}}
{{- range $scope := $.scopes -}}
{{- $rules = concat $rules (get $rights $scope | default list) -}}
{{- end -}}
{{- if and (eq $part "appstackobjects") (has "watched" $.scopes) -}}
{{- range $object := $.root.Values.kinds.appstack.objects -}}
{{- $rules = append $rules (dict "apiGroups" (list $object.group) "resources" (list $object.resource)
  "verbs" (list "get" "list" "watch" "create" "patch" "delete")) -}}
{{- end -}}
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

{{/* A Role with the rules of one scope and its binding: (dict "root" $ "namespace" x "name" y "scope" z), and "parts" for others than those that are on. */}}
{{- define "mainstay.role" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "mainstay.labels" .root | nindent 4 }}
rules:
  {{- include "mainstay.rules" (dict "root" .root "scopes" (list .scope) "parts" .parts) | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "mainstay.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "mainstay.serviceAccountName" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
