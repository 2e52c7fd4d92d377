/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which pointers are objects of ours, and of which kind. */
#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "verbs/handle.h"
#include "verbs/verbs.h"

struct handle {
	uintptr_t object;
	enum weft_handle_kind kind;
	uint32_t forks; /* as they were when it was added */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *handles;  /* a tree, under the mutex */
static uint32_t forks; /* that have made this process since the library was loaded */

/*
 * Some of those that were found: each with its kind in the bits that are 0 in addresses from malloc. Written under the
 * mutex, read without: for those that programs name again and again, as they wait.
 */
#define FOUND	  256u
#define FOUND_LOW 15u

_Static_assert(WEFT_HANDLE_XRCD + 1 <= FOUND_LOW, "each kind has its number, none of them 0");

static _Atomic uintptr_t found[FOUND];

static _Atomic uintptr_t *found_at(const void *object)
{
	return &found[((uintptr_t)object * 0x9e3779b97f4a7c15ull >> 32) % FOUND];
}

/* 0: of an object that stands elsewhere. */
static uintptr_t found_as(const void *object, enum weft_handle_kind kind)
{
	return (uintptr_t)object & FOUND_LOW ? 0 : (uintptr_t)object | ((uintptr_t)kind + 1);
}

static int by_object(const void *a, const void *b)
{
	const struct handle *x = a, *y = b;

	return (x->object > y->object) - (x->object < y->object);
}

int weft_handle_add(const void *object, enum weft_handle_kind kind)
{
	struct handle *h = malloc(sizeof(*h));
	void *at = NULL;

	if (!h)
		return -ENOMEM;
	*h = (struct handle){(uintptr_t)object, kind, forks};
	pthread_mutex_lock(&mutex);
	at = tsearch(h, &handles, by_object);
	pthread_mutex_unlock(&mutex);
	if (!at)
		free(h);
	return at ? 0 : -ENOMEM;
}

/* Zero: there is none. */
static struct handle look_up_handle(const void *object)
{
	struct handle h = {.object = (uintptr_t)object};
	struct handle **at;

	pthread_mutex_lock(&mutex);
	at = tfind(&h, &handles, by_object);
	h = at ? **at : (struct handle){0};
	if (at && h.forks == forks)
		atomic_store_explicit(found_at(object), found_as(object, h.kind),
				      memory_order_relaxed);
	pthread_mutex_unlock(&mutex);
	return h;
}

bool weft_handle_is(const void *object, enum weft_handle_kind kind)
{
	uintptr_t as = found_as(object, kind);
	struct handle h;

	if (as && atomic_load_explicit(found_at(object), memory_order_relaxed) == as)
		return true;
	h = look_up_handle(object);
	return h.object && h.kind == kind && h.forks == forks;
}

bool weft_handle_inherited(const void *object)
{
	struct handle h = look_up_handle(object);

	return h.object && h.forks != forks;
}

void weft_handle_remove(const void *object)
{
	struct handle wanted = {.object = (uintptr_t)object}, *h = NULL;
	struct handle **at;

	pthread_mutex_lock(&mutex);
	at = tfind(&wanted, &handles, by_object);
	if (at) {
		h = *at;
		if (atomic_load_explicit(found_at(object), memory_order_relaxed) ==
		    found_as(object, h->kind))
			atomic_store_explicit(found_at(object), 0, memory_order_relaxed);
		tdelete(&wanted, &handles, by_object);
	}
	pthread_mutex_unlock(&mutex);
	free(h);
}

void weft_handle_forget(void)
{
	/* another thread of the parent was changing it: not to be walked */
	if (pthread_mutex_trylock(&mutex))
		handles = NULL;
	pthread_mutex_init(&mutex, NULL);
	for (uint32_t i = 0; i < FOUND; i++)
		atomic_store_explicit(&found[i], 0, memory_order_relaxed);
	forks++;
}

static const struct ibv_context *context_of(const struct handle *h)
{
	const void *object = (const void *)h->object;

	switch (h->kind) {
	case WEFT_HANDLE_PD:
		return ((const struct ibv_pd *)object)->context;
	case WEFT_HANDLE_MR:
		return ((const struct ibv_mr *)object)->context;
	case WEFT_HANDLE_CQ:
		return ((const struct ibv_cq *)object)->context;
	case WEFT_HANDLE_CHANNEL:
		return ((const struct ibv_comp_channel *)object)->context;
	case WEFT_HANDLE_QP:
		return ((const struct ibv_qp *)object)->context;
	case WEFT_HANDLE_MW:
		return ((const struct ibv_mw *)object)->context;
	case WEFT_HANDLE_SRQ:
		return ((const struct ibv_srq *)object)->context;
	case WEFT_HANDLE_XRCD:
		return ((const struct ibv_xrcd *)object)->context;
	case WEFT_HANDLE_AH:
		return ((const struct ibv_ah *)object)->context;
	case WEFT_HANDLE_TD:
		return ((const struct ibv_td *)object)->context;
	case WEFT_HANDLE_DM:
		return ((const struct ibv_dm *)object)->context;
	case WEFT_HANDLE_BUF:
		return NULL; /* memory of the program: it stays until freed */
	}
	return NULL;
}

struct search {
	const struct ibv_context *context;
	enum weft_handle_kind kind;
	void **list; /* NULL: only count */
	size_t n;
};

static void visit_handle(const void *node, VISIT order, void *arg)
{
	const struct handle *h = *(const struct handle *const *)node;
	struct search *s = arg;

	if ((order != postorder && order != leaf) || h->kind != s->kind || h->forks != forks ||
	    (s->context && context_of(h) != s->context))
		return;
	if (s->list)
		s->list[s->n] = (void *)h->object;
	s->n++;
}

size_t weft_handle_list(const struct ibv_context *context, enum weft_handle_kind kind, void ***list)
{
	struct search s = {.context = context, .kind = kind};

	pthread_mutex_lock(&mutex);
	twalk_r(handles, visit_handle, &s);
	s.list = s.n ? malloc(s.n * sizeof(*s.list)) : NULL;
	s.n = 0;
	if (s.list)
		twalk_r(handles, visit_handle, &s);
	pthread_mutex_unlock(&mutex);
	*list = s.list;
	return s.n;
}

struct wanted {
	enum weft_handle_kind kind;
	bool (*fits)(const void *object, const void *arg);
	const void *arg;
	void *found;
};

static void try(const void *node, VISIT order, void *arg)
{
	const struct handle *h = *(const struct handle *const *)node;
	struct wanted *w = arg;

	if ((order == postorder || order == leaf) && h->kind == w->kind && h->forks == forks &&
	    w->fits((const void *)h->object, w->arg))
		w->found = (void *)h->object;
}

void *weft_handle_find(enum weft_handle_kind kind,
		       bool (*fits)(const void *object, const void *arg), const void *arg)
{
	struct wanted w = {kind, fits, arg, NULL};

	pthread_mutex_lock(&mutex);
	twalk_r(handles, try, &w);
	pthread_mutex_unlock(&mutex);
	return w.found;
}
