package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/hub"
	"github.com/specgo/spec/internal/modeldir"
	"github.com/specgo/spec/serve"
)

// store is the models' folder as a server changes it.
type store struct {
	s  *serving
	p  *program
	rt *engine.Runtime
}

// manages reports whether somebody may change which models there are: then the folder may be empty.
func (s *serving) manages() bool { return s.allowManage || s.keyFile != "" }

// stored is a model of the folder.
func (s *serving) stored(p *program, rt *engine.Runtime, m modeldir.Model) serve.Entry {
	e := s.entry(p, rt, m.Name, servedFile{target: m.File, draft: m.Draft, template: m.Settings.Template})
	e.Bytes, e.Modified, e.Stored = m.Bytes, m.Modified, true
	e.Aliases, e.System, e.Parameters = m.Settings.Names(), m.Settings.System, m.Settings.Parameters
	return e
}

// answer is what has come of a change, with the status of an error that the client has made.
func (x *store) answer(m modeldir.Model, err error) (serve.Entry, error) {
	for _, known := range []struct {
		err    error
		status int
		kind   string
	}{
		{modeldir.ErrName, http.StatusBadRequest, "invalid_request_error"},
		{modeldir.ErrNotFound, http.StatusNotFound, "not_found_error"},
		{modeldir.ErrExists, http.StatusConflict, "invalid_request_error"},
		{modeldir.ErrBusy, http.StatusConflict, "invalid_request_error"},
		{hub.ErrNoFile, http.StatusNotFound, "not_found_error"}, {hub.ErrNotFound, http.StatusNotFound, "not_found_error"},
		{hub.ErrDenied, http.StatusForbidden, "permission_error"},
		{hub.ErrUnreachable, http.StatusBadGateway, "server_error"}, {hub.ErrServer, http.StatusBadGateway, "server_error"},
		{hub.ErrChecksum, http.StatusBadGateway, "server_error"},
	} {
		if errors.Is(err, known.err) {
			err = &serve.Error{Status: known.status, Type: known.kind, Message: err.Error(), Cause: err}
			break
		}
	}
	if err != nil {
		return serve.Entry{}, err
	}
	return x.s.stored(x.p, x.rt, m), nil
}

// Pull downloads a model of the Hugging Face Hub into the folder.
func (x *store) Pull(ctx context.Context, name string, progress func(file string, done, total int64)) (
	serve.Entry, error) {
	if offline(x.p) {
		return serve.Entry{}, &serve.Error{Status: http.StatusForbidden, Type: "permission_error", Code: "offline",
			Message: noDownload(name).Error()}
	}
	return x.answer(x.s.folder.Pull(ctx, hub.Client{
		Endpoint: x.p.env("HF_ENDPOINT"), Token: x.p.env("HF_TOKEN"), Progress: progress,
	}, name))
}

// List is the models of the folder.
func (x *store) List() (list []serve.Entry, err error) {
	models, err := x.s.folder.List()
	for _, m := range models {
		list = append(list, x.s.stored(x.p, x.rt, m))
	}
	return list, err
}

// Delete deletes a model's files.
func (x *store) Delete(name string) error {
	_, err := x.answer(modeldir.Model{}, x.s.folder.Delete(name))
	return err
}

// Copy gives a model another name.
func (x *store) Copy(from, to string) (serve.Entry, error) {
	return x.answer(x.s.folder.Copy(from, to))
}

// Create makes a model of another one.
func (x *store) Create(name, from string, made serve.Made) (serve.Entry, error) {
	return x.answer(x.s.folder.Create(name, from, modeldir.Settings{
		System: made.System, Template: made.Template, Parameters: made.Parameters,
	}))
}
