/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/rich/fit.h"

/* Of the width of the points to their length, squared: below, they are collinear. */
#define FLAT   1e-6
#define ROUNDS 20u

/* Sums over the points about their mean, by count: u, v and z = u² + v². */
struct moments {
	double x, y; /* the mean */
	double uu, vv, uv, z, uz, vz, zz;
};

WEFT_BOTH static enum weft_fit_state sum_points(const struct weft_points *p, struct moments *m)
{
	double by = 1.0 / p->count;

	*m = (struct moments){0};
	if (p->count < WEFT_FIT_LEAST)
		return WEFT_FIT_FEW;
	for (uint32_t i = 0; i < p->count; i++) {
		m->x += by * (double)p->x[i];
		m->y += by * (double)p->y[i];
	}
	for (uint32_t i = 0; i < p->count; i++) {
		double u = (double)p->x[i] - m->x, v = (double)p->y[i] - m->y, z = u * u + v * v;

		m->uu += by * u * u;
		m->vv += by * v * v;
		m->uv += by * u * v;
		m->uz += by * u * z;
		m->vz += by * v * z;
		m->zz += by * z * z;
	}
	m->z = m->uu + m->vv;
	return m->uu * m->vv - m->uv * m->uv <= FLAT * m->z * m->z ? WEFT_FIT_COLLINEAR
								   : WEFT_FIT_FOUND;
}

WEFT_BOTH static void set_ring(const struct weft_points *p, const struct moments *m, double a,
			       double b, struct weft_rich_ring *ring)
{
	*ring = (struct weft_rich_ring){.x = m->x + a,
					.y = m->y + b,
					.r = __builtin_sqrt(a * a + b * b + m->z),
					.hits = p->count};
}

/* [uu uv; uv vv] (a, b) = ½ (uz, vz) */
WEFT_BOTH enum weft_fit_state weft_fit_crawford(const struct weft_points *p,
						struct weft_rich_ring *ring)
{
	struct moments m;
	enum weft_fit_state state = sum_points(p, &m);

	if (state != WEFT_FIT_FOUND)
		return state;
	double twice = 2 * (m.uu * m.vv - m.uv * m.uv);

	set_ring(p, &m, (m.uz * m.vv - m.vz * m.uv) / twice, (m.vz * m.uu - m.uz * m.uv) / twice,
		 ring);
	return WEFT_FIT_FOUND;
}

/* The least root of the characteristic polynomial, by Newton from zero, where it rises to it. */
WEFT_BOTH static double taubin_root(const struct moments *m, double det)
{
	double variance = m->zz - m->z * m->z;
	double a3 = 4 * m->z, a2 = -3 * m->z * m->z - m->zz;
	double a1 = variance * m->z + 4 * det * m->z - m->uz * m->uz - m->vz * m->vz;
	double a0 = m->uz * (m->uz * m->vv - m->vz * m->uv) +
		    m->vz * (m->vz * m->uu - m->uz * m->uv) - variance * det;
	double x = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		double slope = a1 + x * (2 * a2 + x * 3 * a3);
		double next = slope != 0 ? x - (a0 + x * (a1 + x * (a2 + x * a3))) / slope : x;

		if (!(next > x)) /* as near as doubles come */
			break;
		x = next;
	}
	return x;
}

WEFT_BOTH enum weft_fit_state weft_fit_taubin(const struct weft_points *p,
					      struct weft_rich_ring *ring)
{
	struct moments m;
	enum weft_fit_state state = sum_points(p, &m);

	if (state != WEFT_FIT_FOUND)
		return state;
	double det = m.uu * m.vv - m.uv * m.uv, x = taubin_root(&m, det);
	double twice = 2 * (x * x - x * m.z + det);

	if (!(twice > FLAT * m.z * m.z))
		return WEFT_FIT_COLLINEAR;
	set_ring(p, &m, (m.uz * (m.vv - x) - m.vz * m.uv) / twice,
		 (m.vz * (m.uu - x) - m.uz * m.uv) / twice, ring);
	return WEFT_FIT_FOUND;
}

WEFT_BOTH static double worst_off(const struct weft_points *p, const struct weft_rich_ring *ring)
{
	double worst = 0;

	for (uint32_t i = 0; i < p->count; i++) {
		double off = __builtin_fabs(weft_ring_off(ring, (double)p->x[i], (double)p->y[i]));

		worst = off > worst ? off : worst;
	}
	return worst;
}

WEFT_BOTH static double square_off(const struct weft_points *p, const struct weft_rich_ring *ring)
{
	double sum = 0;

	for (uint32_t i = 0; i < p->count; i++) {
		double off = weft_ring_off(ring, (double)p->x[i], (double)p->y[i]);

		sum += off * off;
	}
	return sum;
}

WEFT_BOTH static void exchange(struct weft_points *p, uint32_t i, uint32_t k)
{
	float x = p->x[i], y = p->y[i];

	p->x[i] = p->x[k];
	p->y[i] = p->y[k];
	p->x[k] = x;
	p->y[k] = y;
}

/* Drops the point without which the others lie best on a ring, that is *ring then. */
WEFT_BOTH static enum weft_fit_state drop_one(weft_fit_fn *fit, struct weft_points *p,
					      struct weft_rich_ring *ring)
{
	double least = __builtin_inf();
	uint32_t last = --p->count, best = last;
	struct weft_rich_ring without;
	bool found = false;

	for (uint32_t i = 0; i <= last; i++) {
		exchange(p, i, last);
		if (fit(p, &without) == WEFT_FIT_FOUND && square_off(p, &without) < least) {
			least = square_off(p, &without);
			*ring = without;
			best = i;
			found = true;
		}
		exchange(p, i, last);
	}
	exchange(p, best, last);
	return found ? WEFT_FIT_FOUND : last < WEFT_FIT_LEAST ? WEFT_FIT_FEW : WEFT_FIT_COLLINEAR;
}

WEFT_BOTH enum weft_fit_state weft_fit_without_outliers(weft_fit_fn *fit, struct weft_points *p,
							struct weft_rich_ring *ring)
{
	enum weft_fit_state state = fit(p, ring);

	for (uint32_t drops = 0; drops < WEFT_FIT_DROPS && state == WEFT_FIT_FOUND &&
				 worst_off(p, ring) > WEFT_FIT_WITHIN;
	     drops++)
		state = drop_one(fit, p, ring);
	return state;
}
