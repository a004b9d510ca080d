{{/* The beginning of all names. */}}
{{- define "railyard.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains "railyard" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-railyard" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What pods are selected by: dict "root" $ "component" NAME. */}}
{{- define "railyard.selector" -}}
app.kubernetes.io/name: railyard
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of everything. */}}
{{- define "railyard.labels" -}}
{{ include "railyard.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: railyard
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* An image: dict "image" VALUES "path" WHERE "default" TAG. */}}
{{- define "railyard.image" -}}
{{- $repository := required (printf "%s.repository is empty: name the image, for example --set %s.repository=registry.example/railyard" .path .path) .image.repository -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest -}}
{{- else -}}
{{- $tag := required (printf "%s.tag and %s.digest are empty: set one of them" .path .path) (default .default .image.tag) -}}
{{- if eq $tag "latest" }}{{ fail (printf "%s.tag is latest: name a version, or set %s.digest, so that all servers run the same" .path .path) }}{{ end -}}
{{- printf "%s:%s" $repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "railyard.ourImage" -}}
{{- include "railyard.image" (dict "image" .Values.image "path" "image" "default" .Chart.AppVersion) -}}
{{- end -}}

{{/* Where agents and drivers find the controller. */}}
{{- define "railyard.url" -}}
{{- if .Values.controllerUrl -}}
{{- .Values.controllerUrl -}}
{{- else if .Values.controller.enabled -}}
{{- printf "https://%s-controller.%s.svc.%s:%v" (include "railyard.fullname" .) .Release.Namespace .Values.clusterDomain .Values.controller.service.port -}}
{{- else -}}
{{- fail "controllerUrl is empty and controller.enabled is false: say where the controller is, https://HOST:PORT, or set dra.askController to false" -}}
{{- end -}}
{{- end -}}

{{/* How pods are pulled and placed: dict "root" $ "of" VALUES. */}}
{{- define "railyard.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .of.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .of.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The proxy before /metrics of a program: dict "root" $ "port" PORT "upstream" PORT. */}}
{{- define "railyard.proxy" -}}
- name: metrics
  image: {{ include "railyard.image" (dict "image" .root.Values.metrics.proxy.image "path" "metrics.proxy.image" "default" "") | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args:
    - --secure-listen-address=:{{ .port }}
    - --upstream=http://127.0.0.1:{{ .upstream }}/
    - --allow-paths=/metrics
  ports:
    - {name: metrics, containerPort: {{ .port }}}
  volumeMounts:
    - {name: metrics-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
  resources:
    {{- toYaml .root.Values.metrics.proxy.resources | nindent 4 }}
{{- end -}}

{{/* What the proxy alone asks the API server with. */}}
{{- define "railyard.proxyVolume" -}}
- name: metrics-token
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end -}}

{{/* All addresses of a pod: dict "root" $ "port" PORT. */}}
{{- define "railyard.anyAddress" -}}
{{- printf (ternary "[::]:%v" "0.0.0.0:%v" (eq .root.Values.ipFamily "IPv6")) .port -}}
{{- end -}}

{{/* Refuses options that the chart sets itself: dict "path" WHERE "given" ARGUMENTS "fixed" OPTIONS. */}}
{{- define "railyard.noneTwice" -}}
{{- $path := .path -}}
{{- $fixed := .fixed -}}
{{- range $given := .given -}}
{{- range $option := $fixed -}}
{{- if or (eq $given $option) (hasPrefix (printf "%s=" $option) $given) -}}
{{- fail (printf "%s has %s, which the chart sets itself: leave it out, and use the value for it where there is one" $path $option) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
