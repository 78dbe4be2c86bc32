{{/*
The certificate of a Service, by cert-manager, in a Secret of the same name, and the CA of its own that it takes without an issuer of the user's:
(dict "root" $ "name" x "labels" y "ca" z), z the name that the CA gives itself.
*/}}
{{- define "mainstay.certificate" }}
{{- if not .root.Values.certManager.issuerRef }}
---
# A CA of our own: what the API server is told to trust must outlive one serving certificate.
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ .name }}-selfsigned
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  selfSigned: {}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .name }}-ca
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  isCA: true
  commonName: {{ .ca }}
  secretName: {{ .name }}-ca
  duration: 87600h
  privateKey:
    algorithm: ECDSA
    size: 256
  issuerRef:
    name: {{ .name }}-selfsigned
    kind: Issuer
    group: cert-manager.io
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  ca:
    secretName: {{ .name }}-ca
{{- end }}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  secretName: {{ .name }}
  duration: 2160h
  dnsNames:
    - {{ .name }}.{{ .root.Release.Namespace }}.svc
  usages: [server auth]
  privateKey:
    algorithm: ECDSA
    size: 256
    rotationPolicy: Always
  issuerRef:
    {{- with .root.Values.certManager.issuerRef }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    name: {{ .name }}
    kind: Issuer
    group: cert-manager.io
    {{- end }}
{{- end }}
