package v1

// Labels are labels of children.
//
// +kubebuilder:validation:MaxProperties=64
// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'app' && !(k in ['pod-template-hash', 'controller-revision-hash', 'statefulset.kubernetes.io/pod-name', 'apps.kubernetes.io/pod-index']) && !k.startsWith('mainstay.dev/') && !k.contains('.mainstay.dev/') && !(k.startsWith('app.kubernetes.io/') && k != 'app.kubernetes.io/version'))",message="must not set app, app.kubernetes.io/* except version, mainstay.dev/*, *.mainstay.dev/*, pod-template-hash, controller-revision-hash, statefulset.kubernetes.io/pod-name or apps.kubernetes.io/pod-index: they are set by Mainstay or Kubernetes"
// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="label keys must be [domain/]name, the name of at most 63 letters, digits, '-', '_' and '.'"
type Labels map[string]LabelValue

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$')",message="must be a label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends"
type LabelValue string

// Annotations are annotations of children.
//
// +kubebuilder:validation:MaxProperties=64
// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('mainstay.dev/') && (!k.contains('.mainstay.dev/') || k in ['config.mainstay.dev/reload', 'instrumentation.mainstay.dev/inject']) && !k.startsWith('deployment.kubernetes.io/') && k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="annotation keys must be [domain/]name, the name of at most 63 characters, and not mainstay.dev/*, *.mainstay.dev/* (but config.mainstay.dev/reload and instrumentation.mainstay.dev/inject) or deployment.kubernetes.io/*, which Mainstay and Kubernetes set"
type Annotations map[string]string
