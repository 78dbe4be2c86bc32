{{/*
What our own API server serves, as a YAML list; empty where there is to be none. What it serves it serves for the whole cluster, with rights on
all of it, and with the credentials of its own pod.
*/}}
{{- define "mainstay.served" -}}
{{- $served := list -}}
{{- if not (or .Values.watchNamespaces .Values.ambassador.enabled) -}}
{{- range $resource := list "farmpods" "llamas" -}}
{{- if (get $.Values.apiserver $resource).enabled -}}{{- $served = append $served $resource -}}{{- end -}}
{{- end -}}
{{- else if .Values.apiserver.llamas.enabled -}}
{{- fail "apiserver.llamas.enabled: can't be used with watchNamespaces or ambassador.enabled: the server needs rights in all namespaces, and its own credentials. Disable llamas, or remove those" -}}
{{- end -}}
{{- toYaml $served -}}
{{- end -}}

{{/*
The parts that the server has rights for, as a YAML list: what it serves, and what the cluster's admission takes where something of that is written.
*/}}
{{- define "mainstay.servedParts" -}}
{{- $parts := include "mainstay.served" . | fromYamlArray -}}
{{- range $written := list "llamas" -}}
{{- if has $written $parts -}}{{- $parts = append $parts "admission" | uniq -}}{{- end -}}
{{- end -}}
{{- toYaml $parts -}}
{{- end -}}

{{/* The name of the server's Deployment, of what belongs to it, and of the Secret with its certificate. */}}
{{- define "mainstay.apiserver" -}}
{{- include "mainstay.fullname" . }}-apiserver
{{- end -}}

{{/* Labels that select the server's pods, and no pod of the manager: they never change in the life of a release. */}}
{{- define "mainstay.apiserverSelector" -}}
{{- merge (dict "app.kubernetes.io/component" "apiserver") (include "mainstay.selector" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "mainstay.apiserverLabels" -}}
{{- merge (dict "app.kubernetes.io/component" "apiserver") (include "mainstay.labels" . | fromYaml) | toYaml -}}
{{- end -}}

{{/* Its ServiceAccount, which is never the manager's: neither is to have the other's rights. */}}
{{- define "mainstay.apiserverAccount" -}}
{{- $name := include "mainstay.apiserver" . -}}
{{- with .Values.apiserver.serviceAccount.name -}}{{- $name = . -}}{{- else -}}
{{- if not .Values.apiserver.serviceAccount.create -}}
{{- fail "apiserver.serviceAccount.name is needed when apiserver.serviceAccount.create is false" -}}
{{- end -}}
{{- end -}}
{{- if eq $name (include "mainstay.serviceAccountName" .) -}}
{{- fail (printf "apiserver.serviceAccount.name: %s is the manager's account, and the server would have its rights: name another" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}
