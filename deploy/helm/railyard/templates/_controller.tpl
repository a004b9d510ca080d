{{/* The pod of a controller, the same in the StatefulSet and the Deployment. */}}
{{- define "railyard.controllerPod" -}}
{{- $name := printf "%s-controller" (include "railyard.fullname" .) -}}
{{- $service := printf "%s.%s.svc" $name .Release.Namespace -}}
{{- $etcd := eq .Values.controller.store.kind "etcd" -}}
{{- with .Values.controller -}}
metadata:
  labels:
    {{- include "railyard.labels" (dict "root" $ "component" "controller") | nindent 4 }}
  annotations:
    kubectl.kubernetes.io/default-container: controller
    {{- with .podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ $name }}
  # The proxy beside it has a token, and nothing else has one.
  automountServiceAccountToken: false
  # Variables that are named after Services are no options.
  enableServiceLinks: false
  # Open calls have 5 s to end, and the lead is handed over before.
  terminationGracePeriodSeconds: 30
  {{- with include "railyard.placement" (dict "root" $ "of" .) | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with .affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if $etcd }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "railyard.selector" (dict "root" $ "component" "controller") | nindent 10 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    # Once alone: a controller refuses keys that its group can read.
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- if .authority.secretName }}
  initContainers:
    # Files of a Secret are readable by the pod's group, which a controller refuses; and it writes beside them.
    - name: authority
      image: {{ include "railyard.ourImage" $ | quote }}
      imagePullPolicy: {{ $.Values.image.pullPolicy }}
      command: [sh, -ceu]
      args:
        - |
          umask 077
          from=/etc/railyard/authority
          mkdir -p /var/lib/rail-controller/state
          cd /var/lib/rail-controller/state
          # Of a change of the authority that is on its way. A folder that has ca.pem, which comes last, goes on by itself.
          for file in ca.next.key ca.old.key ca.cross.pem ca.retired.pem; do
            if [ -e "$from/$file" ] && ! [ -e ca.pem ]; then cp "$from/$file" "$file.new" && mv "$file.new" "$file"; fi
          done
          for file in ca.key store.keys ca.pem; do
            [ -e "$file" ] || { cp "$from/$file" "$file.new" && mv "$file.new" "$file"; }
          done
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        requests: {cpu: 10m, memory: 16Mi}
        limits: {memory: 64Mi}
      volumeMounts:
        - {name: state, mountPath: /var/lib/rail-controller}
        - {name: authority, mountPath: /etc/railyard/authority, readOnly: true}
  {{- end }}
  containers:
    - name: controller
      image: {{ include "railyard.ourImage" $ | quote }}
      imagePullPolicy: {{ $.Values.image.pullPolicy }}
      command: [rail-controller, run]
      args:
        - --data-dir=/var/lib/rail-controller/state
        - {{ printf "--cluster=%s" .cluster | quote }}
        - --store={{ .store.kind }}
        - {{ printf "--listen=%s" (include "railyard.anyAddress" (dict "root" $ "port" 7443)) | quote }}
        - --metrics=127.0.0.1:7444
        - --server-name={{ $name }}
        - --server-name={{ $name }}.{{ $.Release.Namespace }}
        - --server-name={{ $service }}
        - --server-name={{ $service }}.{{ $.Values.clusterDomain }}
        {{- range .serverNames }}
        - {{ printf "--server-name=%s" . | quote }}
        {{- end }}
        {{- if $etcd }}
        - {{ ternary "--advertise=https://[$(POD_IP)]:7443" "--advertise=https://$(POD_IP):7443" (eq $.Values.ipFamily "IPv6") | quote }}
        {{- range .store.etcd.endpoints }}
        - {{ printf "--etcd-endpoints=%s" . | quote }}
        {{- end }}
        - {{ printf "--etcd-prefix=%s" .store.etcd.prefix | quote }}
        - --etcd-ca=/etc/railyard/etcd/ca.pem
        {{- if .store.etcd.clientCertificate }}
        - --etcd-cert=/etc/railyard/etcd/client.pem
        - --etcd-key=/etc/railyard/etcd/client.key
        {{- end }}
        {{- with .store.etcd.user }}
        - {{ printf "--etcd-user=%s" . | quote }}
        - --etcd-password-file=/etc/railyard/etcd/password
        {{- end }}
        {{- end }}
        {{- if .backups.claimName }}
        - --backup-dir=/var/lib/rail-backups
        - {{ printf "--backup-every=%s" .backups.every | quote }}
        - --backup-keep={{ .backups.keep }}
        {{- end }}
        - {{ printf "--log-level=%s" .logLevel | quote }}
        - --log-format=json
        {{- range .extraArgs }}
        - {{ . | quote }}
        {{- end }}
      {{- if or $etcd .passphrase.secretName }}
      env:
        {{- if $etcd }}
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        {{- end }}
        {{- with .passphrase.secretName }}
        - {name: RAIL_CONTROLLER_CA_PASSPHRASE, valueFrom: {secretKeyRef: {name: {{ . }}, key: passphrase}}}
        {{- end }}
      {{- end }}
      ports:
        - {name: api, containerPort: 7443}
      # It reads all of its store before it answers.
      startupProbe:
        exec: {command: [rail-controller, probe, --metrics=127.0.0.1:7444, live]}
        periodSeconds: 5
        timeoutSeconds: 6
        failureThreshold: 120
      livenessProbe:
        exec: {command: [rail-controller, probe, --metrics=127.0.0.1:7444, live]}
        periodSeconds: 10
        timeoutSeconds: 6
        failureThreshold: 6
      readinessProbe:
        exec: {command: [rail-controller, probe, --metrics=127.0.0.1:7444, ready]}
        periodSeconds: 5
        timeoutSeconds: 6
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml .resources | nindent 8 }}
      volumeMounts:
        - {name: state, mountPath: /var/lib/rail-controller}
        # For `rail-controller init --admin-out /tmp/admin`; memory.
        - {name: tmp, mountPath: /tmp}
        {{- if $etcd }}
        - {name: etcd, mountPath: /etc/railyard/etcd, readOnly: true}
        {{- end }}
        {{- if .backups.claimName }}
        - {name: backups, mountPath: /var/lib/rail-backups}
        {{- end }}
    {{- if $.Values.metrics.proxy.enabled }}
    {{- include "railyard.proxy" (dict "root" $ "port" $.Values.metrics.proxy.port "upstream" 7444) | nindent 4 }}
    {{- end }}
  volumes:
    - {name: tmp, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
    {{- if $.Values.metrics.proxy.enabled }}
    {{- include "railyard.proxyVolume" . | nindent 4 }}
    {{- end }}
    {{- if $etcd }}
    # Nothing that is not in etcd or in the Secret.
    - {name: state, emptyDir: {}}
    - {name: etcd, secret: {secretName: {{ .store.etcd.secretName }}, defaultMode: 0440}}
    {{- end }}
    {{- with .backups.claimName }}
    - {name: backups, persistentVolumeClaim: {claimName: {{ . }}}}
    {{- end }}
    {{- with .authority.secretName }}
    - {name: authority, secret: {secretName: {{ . }}, defaultMode: 0440}}
    {{- end }}
{{- end -}}
{{- end -}}
