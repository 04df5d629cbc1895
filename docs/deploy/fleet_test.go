package deploy

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/schema"
	nomad "github.com/hashicorp/nomad/api"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

// pool is an InferencePool by the reference of inference.networking.k8s.io/v1: its Go types are in a module that is not
// to be had from the module proxy.
type pool struct {
	meta
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		TargetPorts []struct {
			Number int32 `json:"number"`
		} `json:"targetPorts"`
		EndpointPickerRef struct {
			Group string `json:"group"`
			Kind  string `json:"kind"`
			Name  string `json:"name"`
			Port  struct {
				Number int32 `json:"number"`
			} `json:"port"`
			FailureMode string `json:"failureMode"`
		} `json:"endpointPickerRef"`
	} `json:"spec"`
}

// scaled is a ScaledObject of keda.sh/v1alpha1, with the metadata of its trigger nats-jetstream: its Go types come with
// the whole of KEDA.
type scaled struct {
	meta
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int32 `json:"minReplicaCount"`
		MaxReplicaCount int32 `json:"maxReplicaCount"`
		CooldownPeriod  int32 `json:"cooldownPeriod"`
		Triggers        []struct {
			Type     string `json:"type"`
			Metadata struct {
				Endpoint   string `json:"natsServerMonitoringEndpoint"`
				Account    string `json:"account"`
				Stream     string `json:"stream"`
				Consumer   string `json:"consumer"`
				Lag        string `json:"lagThreshold"`
				Activation string `json:"activationLagThreshold"`
			} `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// picker is the configuration of an endpoint picker.
type picker struct {
	meta
	Plugins []struct {
		Type string `json:"type"`
	} `json:"plugins"`
	SchedulingProfiles []struct {
		Name    string `json:"name"`
		Plugins []struct {
			PluginRef string `json:"pluginRef"`
			Weight    int    `json:"weight"`
		} `json:"plugins"`
	} `json:"schedulingProfiles"`
}

// decode reads every document of a file strictly into the type of its kind.
func decode(t *testing.T, name string, types map[string]func() any) map[string]any {
	t.Helper()
	all := map[string]any{}
	for i, doc := range documents(t, name) {
		var m meta
		if err := yaml.Unmarshal(doc, &m); err != nil {
			t.Fatal(err)
		}
		kind := m.APIVersion + " " + m.Kind
		of, ok := types[kind]
		if !ok {
			t.Errorf("%s, document %d: unknown type %s", name, i, kind)
			continue
		}
		to := of()
		if err := yaml.UnmarshalStrict(doc, to); err != nil {
			t.Errorf("%s, document %d: %v", name, i, err)
		}
		if all[kind] != nil {
			t.Errorf("%s: two of %s", name, kind)
		}
		all[kind] = to
	}
	if len(all) != len(types) {
		t.Errorf("%s: %d kinds, want %d", name, len(all), len(types))
	}
	return all
}

// The gateway's route leads to the pool, the pool to the pods of deployment.yaml and to the picker's service, and the
// picker reads the metrics of the port that needs no key.
func TestFleet(t *testing.T) {
	all := decode(t, "fleet.yaml", map[string]func() any{
		"inference.networking.k8s.io/v1 InferencePool": func() any { return new(pool) },
		"gateway.networking.k8s.io/v1 HTTPRoute":       func() any { return new(gateway.HTTPRoute) },
		"v1 ConfigMap":                                 func() any { return new(corev1.ConfigMap) },
		"v1 Service":                                   func() any { return new(corev1.Service) },
		"v1 ServiceAccount":                            func() any { return new(corev1.ServiceAccount) },
		"apps/v1 Deployment":                           func() any { return new(appsv1.Deployment) },
		"rbac.authorization.k8s.io/v1 Role":            func() any { return new(rbacv1.Role) },
		"rbac.authorization.k8s.io/v1 RoleBinding":     func() any { return new(rbacv1.RoleBinding) },
	})
	if t.Failed() {
		return
	}
	p := all["inference.networking.k8s.io/v1 InferencePool"].(*pool)
	route := all["gateway.networking.k8s.io/v1 HTTPRoute"].(*gateway.HTTPRoute)
	ref := route.Spec.Rules[0].BackendRefs[0].BackendObjectReference
	if string(ref.Name) != p.Metadata.Name || string(*ref.Kind) != "InferencePool" ||
		string(*ref.Group)+"/v1" != p.APIVersion {
		t.Errorf("the route leads to %s %s", *ref.Kind, ref.Name)
	}
	d := all["apps/v1 Deployment"].(*appsv1.Deployment)
	service := all["v1 Service"].(*corev1.Service)
	if e := p.Spec.EndpointPickerRef; e.Name != service.Name || e.Port.Number != service.Spec.Ports[0].Port ||
		!slices.Contains([]string{"FailOpen", "FailClose"}, e.FailureMode) {
		t.Errorf("the pool's picker is %+v", e)
	}
	if labels := d.Spec.Template.Labels; !matches(service.Spec.Selector, labels) ||
		!matches(d.Spec.Selector.MatchLabels, labels) {
		t.Error("the picker's service or deployment does not select its pods")
	}
	c := &d.Spec.Template.Spec.Containers[0]
	checkMounts(t, &d.Spec.Template.Spec, c)
	var servers *appsv1.Deployment
	for _, doc := range documents(t, "deployment.yaml") {
		if bytes.Contains(doc, []byte("\nkind: Deployment\n")) {
			servers = new(appsv1.Deployment)
			if err := yaml.UnmarshalStrict(doc, servers); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !matches(p.Spec.Selector.MatchLabels, servers.Spec.Template.Labels) {
		t.Error("the pool does not select the pods of deployment.yaml")
	}
	if port := servers.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort; p.Spec.TargetPorts[0].Number != port {
		t.Errorf("the pool's port is %d, that of the pods %d", p.Spec.TargetPorts[0].Number, port)
	}
	if ":"+argument(c, "--model-server-metrics-port") !=
		argument(&servers.Spec.Template.Spec.Containers[0], "--metrics-listen") {
		t.Error("the picker does not read the metrics' own port")
	}
	if argument(c, "--pool-name") != p.Metadata.Name {
		t.Error("the picker is for another pool")
	}
	var config picker
	text := all["v1 ConfigMap"].(*corev1.ConfigMap).Data["config.yaml"]
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	for _, ref := range config.SchedulingProfiles[0].Plugins {
		if !slices.ContainsFunc(config.Plugins, func(p struct {
			Type string `json:"type"`
		}) bool {
			return p.Type == ref.PluginRef
		}) {
			t.Errorf("the picker has no plugin %s", ref.PluginRef)
		}
	}
	binding := all["rbac.authorization.k8s.io/v1 RoleBinding"].(*rbacv1.RoleBinding)
	if account := d.Spec.Template.Spec.ServiceAccountName; binding.Subjects[0].Name != account ||
		binding.RoleRef.Name != all["rbac.authorization.k8s.io/v1 Role"].(*rbacv1.Role).Name ||
		all["v1 ServiceAccount"].(*corev1.ServiceAccount).Name != account {
		t.Error("the picker's account has no role")
	}
}

// matches reports whether labels have what a selector wants.
func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

// Workers are scaled by the consumer of a lane of the queue, whose names are those that package cluster makes, and have
// whole cores.
func TestWorkers(t *testing.T) {
	all := decode(t, "workers.yaml", map[string]func() any{
		"apps/v1 Deployment":            func() any { return new(appsv1.Deployment) },
		"policy/v1 PodDisruptionBudget": func() any { return new(policyv1.PodDisruptionBudget) },
		"keda.sh/v1alpha1 ScaledObject": func() any { return new(scaled) },
	})
	if t.Failed() {
		return
	}
	d := all["apps/v1 Deployment"].(*appsv1.Deployment)
	c := &d.Spec.Template.Spec.Containers[0]
	checkWorker(t, c.Args)
	checkMounts(t, &d.Spec.Template.Spec, c)
	if argument(c, "-metrics-listen") != ":"+d.Spec.Template.Annotations["prometheus.io/port"] {
		t.Error("Prometheus asks at another port")
	}
	if !c.Resources.Requests.Cpu().Equal(*c.Resources.Limits.Cpu()) || c.Resources.Limits.Cpu().MilliValue()%1000 != 0 ||
		!c.Resources.Requests.Memory().Equal(*c.Resources.Limits.Memory()) {
		t.Error("a pod that the static CPU manager gives no cores of its own")
	}
	budget := all["policy/v1 PodDisruptionBudget"].(*policyv1.PodDisruptionBudget)
	if !matches(budget.Spec.Selector.MatchLabels, d.Spec.Template.Labels) {
		t.Error("the budget is for other pods")
	}
	s := all["keda.sh/v1alpha1 ScaledObject"].(*scaled)
	if s.Spec.ScaleTargetRef.Name != d.Name || s.Spec.ScaleTargetRef.Kind != "Deployment" {
		t.Errorf("%+v is scaled", s.Spec.ScaleTargetRef)
	}
	m := s.Spec.Triggers[0].Metadata
	if s.Spec.Triggers[0].Type != "nats-jetstream" || m.Stream != "spec_work" ||
		!regexp.MustCompile(`^[0-9a-f]{32}_(high|normal|low)_\w+$`).MatchString(m.Consumer) {
		t.Errorf("%+v", s.Spec.Triggers[0])
	}
	source, err := os.ReadFile("../../cluster/queue.go")
	if err != nil || !strings.Contains(string(source), `Name: o.Name + "_work"`) {
		t.Errorf("the stream's name is another one now: %v", err)
	}
}

// checkWorker looks every flag up in the source of spec-worker.
func checkWorker(t *testing.T, args []string) {
	t.Helper()
	var known []string
	for _, name := range []string{"../../cluster/cmd/spec-worker/main.go", "../../cluster/internal/connect/connect.go"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`f\.\w*(?:Var\(&[\w.]+, |Func\()"([\w-]+)"`).FindAllSubmatch(source, -1) {
			known = append(known, string(m[1]))
		}
	}
	if len(known) < 20 {
		t.Fatalf("%d flags found: %q", len(known), known)
	}
	if len(args) == 0 {
		t.Error("no arguments")
	}
	for _, a := range args {
		flag, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if !slices.Contains(known, flag) {
			t.Errorf("spec-worker has no flag -%s", flag)
		}
	}
}

// What the kubelet reserves for the static memory manager is what it keeps from pods otherwise.
func TestKubelet(t *testing.T) {
	c := decode(t, "kubelet.yaml", map[string]func() any{
		"kubelet.config.k8s.io/v1beta1 KubeletConfiguration": func() any { return new(kubelet.KubeletConfiguration) },
	})["kubelet.config.k8s.io/v1beta1 KubeletConfiguration"].(*kubelet.KubeletConfiguration)
	if c.CPUManagerPolicy != "static" || c.TopologyManagerPolicy != kubelet.SingleNumaNodeTopologyManagerPolicy ||
		c.MemoryManagerPolicy != kubelet.StaticMemoryManagerPolicy {
		t.Errorf("%s, %s, %s", c.CPUManagerPolicy, c.TopologyManagerPolicy, c.MemoryManagerPolicy)
	}
	if c.SystemReserved["memory"] != "900Mi" || c.EvictionHard["memory.available"] != "124Mi" ||
		c.ReservedMemory[0].Limits.Memory().Value() != 1<<30 {
		t.Error("reservedMemory is not the sum of what is reserved, and the kubelet would not start")
	}
}

// The compose file is valid by its specification's schema, and its commands are ones that the programs have.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(file); err != nil {
		t.Error(err)
	}
	command := func(name string) (args []string) {
		service, ok := file["services"].(map[string]any)[name].(map[string]any)
		if !ok {
			t.Fatalf("no service %s", name)
		}
		for _, a := range service["command"].([]any) {
			args = append(args, a.(string))
		}
		return args
	}
	checkArguments(t, command("serve"))
	if !slices.Contains(command("serve"), "--allowed-host=serve") {
		t.Error("the server does not answer to its name in the network of the services")
	}
	checkWorker(t, command("worker"))
}

// The job for Nomad has no field that its API lacks.
func TestNomad(t *testing.T) {
	text, err := os.ReadFile("nomad.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Job *nomad.Job }
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	task := file.Job.TaskGroups[0].Tasks[0]
	var args []string
	for _, a := range task.Config["args"].([]any) {
		args = append(args, a.(string))
	}
	checkWorker(t, args)
	for _, m := range task.VolumeMounts {
		if file.Job.TaskGroups[0].Volumes[*m.Volume] == nil {
			t.Errorf("no volume %s", *m.Volume)
		}
	}
	if task.Resources.NUMA.Affinity != "require" || *task.Resources.Cores < 1 {
		t.Errorf("%+v", task.Resources)
	}
}
