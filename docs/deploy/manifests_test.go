package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// documents are the parts of a YAML file.
func documents(t *testing.T, name string) (all [][]byte) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := utilyaml.NewYAMLReader(bufio.NewReader(f))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.TrimSpace(doc)) > 0 {
			all = append(all, doc)
		}
	}
}

type meta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Every document is of a published type, and has no field that the type lacks.
func TestManifests(t *testing.T) {
	containers := 0
	check := func(spec *corev1.PodSpec) {
		for i := range spec.Containers {
			containers++
			checkArguments(t, spec.Containers[i].Args)
			checkMounts(t, spec, &spec.Containers[i])
			checkNames(t, &spec.Containers[i])
		}
	}
	for _, name := range []string{"deployment.yaml", "batch-job.yaml"} {
		for i, doc := range documents(t, name) {
			var m meta
			if err := yaml.Unmarshal(doc, &m); err != nil {
				t.Fatal(err)
			}
			var to any
			switch m {
			case meta{"apps/v1", "Deployment"}:
				to = new(appsv1.Deployment)
			case meta{"batch/v1", "Job"}:
				to = new(batchv1.Job)
			case meta{"v1", "Service"}:
				to = new(corev1.Service)
			case meta{"v1", "Secret"}:
				to = new(corev1.Secret)
			case meta{"v1", "PersistentVolumeClaim"}:
				to = new(corev1.PersistentVolumeClaim)
			case meta{"autoscaling/v2", "HorizontalPodAutoscaler"}:
				to = new(autoscalingv2.HorizontalPodAutoscaler)
			case meta{"policy/v1", "PodDisruptionBudget"}:
				to = new(policyv1.PodDisruptionBudget)
			default:
				t.Errorf("%s, document %d: unknown type %v", name, i, m)
				continue
			}
			if err := yaml.UnmarshalStrict(doc, to); err != nil {
				t.Errorf("%s, document %d: %v", name, i, err)
			}
			switch o := to.(type) {
			case *appsv1.Deployment:
				check(&o.Spec.Template.Spec)
				checkScraped(t, o.Spec.Template.Annotations["prometheus.io/port"], &o.Spec.Template.Spec)
				checkTimes(t, &o.Spec.Template.Spec)
			case *batchv1.Job:
				check(&o.Spec.Template.Spec)
				if *o.Spec.CompletionMode != batchv1.IndexedCompletion || *o.Spec.Completions != *o.Spec.Parallelism ||
					*o.Spec.Completions != 4 {
					t.Error("the job's completions are not its shards")
				}
				if o.Spec.BackoffLimitPerIndex != nil && o.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
					t.Error("Kubernetes refuses backoffLimitPerIndex with a restartPolicy other than Never")
				}
			case *autoscalingv2.HorizontalPodAutoscaler:
				if len(o.Spec.Metrics) != 1 || o.Spec.Metrics[0].Pods == nil {
					t.Error("the autoscaler has no metric of pods")
				}
			}
		}
	}
	for _, doc := range documents(t, "kserve.yaml") {
		var runtime struct {
			meta
			Spec struct {
				Containers  []any             `json:"containers"`
				Volumes     []any             `json:"volumes"`
				Annotations map[string]string `json:"annotations"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(doc, &runtime); err != nil {
			t.Fatal(err)
		}
		if runtime.Kind != "ServingRuntime" {
			continue
		}
		part, err := yaml.Marshal(map[string]any{"containers": runtime.Spec.Containers, "volumes": runtime.Spec.Volumes})
		if err != nil {
			t.Fatal(err)
		}
		var pod corev1.PodSpec // which KServe takes these fields from
		if err := yaml.UnmarshalStrict(part, &pod); err != nil {
			t.Errorf("kserve.yaml: %v", err)
		}
		check(&pod)
		checkScraped(t, runtime.Spec.Annotations["prometheus.kserve.io/port"], &pod)
	}
	if containers != 3 {
		t.Errorf("%d containers checked", containers)
	}
}

// checkMounts finds the volume of every mount.
func checkMounts(t *testing.T, spec *corev1.PodSpec, c *corev1.Container) {
	for _, m := range c.VolumeMounts {
		found := false
		for _, v := range spec.Volumes {
			found = found || v.Name == m.Name
		}
		if !found {
			t.Errorf("no volume %s", m.Name)
		}
	}
}

// checkArguments looks every flag up in the sources of the command.
func checkArguments(t *testing.T, args []string) {
	t.Helper()
	rows, err := os.ReadFile("../FLAGS.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(args) == 0 || args[0] != "serve" && args[0] != "batch" {
		t.Fatalf("arguments %q", args)
	}
	for _, a := range args[1:] {
		flag, _, _ := strings.Cut(a, "=")
		known := false
		for row := range strings.Lines(string(rows)) {
			cells := strings.Split(row, "|") // names, variable, what, default, commands
			if len(cells) < 6 {
				continue
			}
			names := strings.FieldsFunc(cells[1], func(r rune) bool { return strings.ContainsRune(" ,`", r) })
			takers := strings.FieldsFunc(cells[len(cells)-2], func(r rune) bool { return r == ' ' || r == ',' })
			known = known || slices.Contains(names, flag) && slices.Contains(takers, args[0])
		}
		if !known {
			t.Errorf("spec %s has no flag %s", args[0], flag)
		}
	}
}

// argument is the value of a flag of a container.
func argument(c *corev1.Container, flag string) string {
	for _, a := range c.Args {
		if v, ok := strings.CutPrefix(a, flag+"="); ok {
			return v
		}
	}
	return ""
}

// checkNames wants a server to answer requests that name it as a Service, an Ingress or a gateway is called: names that
// are not its own are refused.
func checkNames(t *testing.T, c *corev1.Container) {
	t.Helper()
	if c.Args[0] == "serve" && argument(c, "--allowed-host") != "*" {
		t.Errorf("%s answers to addresses alone", c.Name)
	}
}

// checkScraped wants the port that Prometheus is told to be one that needs no key.
func checkScraped(t *testing.T, port string, spec *corev1.PodSpec) {
	t.Helper()
	c := &spec.Containers[0]
	if argument(c, "--metrics-listen") != ":"+port {
		t.Errorf("Prometheus asks at port %s, metrics are at %s", port, argument(c, "--metrics-listen"))
	}
	for _, p := range c.Ports {
		if p.Name == "metrics" && strconv.Itoa(int(p.ContainerPort)) == port {
			return
		}
	}
	t.Errorf("the container has no port metrics %s", port)
}

// checkTimes wants the time before a pod is killed to be enough for the wait before SIGTERM and for streams to end.
func checkTimes(t *testing.T, spec *corev1.PodSpec) {
	t.Helper()
	c := &spec.Containers[0]
	streams, err := strconv.ParseInt(argument(c, "--shutdown-timeout"), 10, 64)
	if err != nil || c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil {
		t.Fatalf("%v, %+v", err, c.Lifecycle)
	}
	if wait := c.Lifecycle.PreStop.Sleep.Seconds; wait < 1 || wait+streams >= *spec.TerminationGracePeriodSeconds {
		t.Errorf("%d s and %d s of %d s", wait, streams, *spec.TerminationGracePeriodSeconds)
	}
}
