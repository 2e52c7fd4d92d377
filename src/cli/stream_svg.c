/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The picture of a report's histograms: which part of the values is larger than what stands below, both in powers of ten. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/stream.h"
#include "stream/histogram.h"

#define LINES	  12u
#define POINTS	  512u
#define WIDTH	  720
#define HEIGHT	  420
#define LEFT	  70
#define RIGHT	  150
#define TOP	  20
#define BOTTOM	  50
#define LEAST_NS  1e2 /* the axes' ends */
#define MOST_NS	  1e9
#define LEAST_OUT 1e-6

struct line {
	const char *name;
	uint64_t count;
	uint32_t points;
	double ns[POINTS], beyond[POINTS];
};

static const char *svg_path;
static struct line lines[LINES];
static uint32_t line_count;

void weft_stream_svg_begin(const char *path)
{
	svg_path = path;
}

bool weft_stream_svg_is_wanted(void)
{
	return svg_path;
}

/* One point for each step with values, thinned where they are many: as long as none moves by more than a hundredth. */
void weft_stream_svg_add(const char *name, const struct weft_histogram *h)
{
	struct line *l = &lines[line_count];
	uint64_t seen = 0;

	if (!svg_path || !h->count || line_count == LINES)
		return;
	l->name = name;
	l->count = h->count;
	for (uint32_t i = 0; i < WEFT_HISTOGRAM_STEPS && l->points < POINTS; i++) {
		double ns = (double)weft_histogram_from(i), beyond;

		if (!h->step[i])
			continue;
		seen += h->step[i];
		beyond = (double)(h->count - seen) / (double)h->count;
		if (l->points && ns < 1.01 * l->ns[l->points - 1] &&
		    beyond > 0.97 * l->beyond[l->points - 1] && seen < h->count)
			continue;
		l->ns[l->points] = ns;
		l->beyond[l->points++] = beyond;
	}
	line_count++;
}

static double x_of(double ns)
{
	double part = (log10(ns > LEAST_NS ? ns : LEAST_NS) - log10(LEAST_NS)) /
		      (log10(MOST_NS) - log10(LEAST_NS));

	return LEFT + (WIDTH - LEFT - RIGHT) * (part < 1 ? part : 1);
}

static double y_of(double beyond)
{
	double part = log10(beyond > LEAST_OUT ? beyond : LEAST_OUT) / log10(LEAST_OUT);

	return TOP + (HEIGHT - TOP - BOTTOM) * part;
}

static void draw_axes(FILE *f)
{
	static const char *const times[] = {"100 ns", "1 µs",  "10 µs",	 "100 µs",
					    "1 ms",   "10 ms", "100 ms", "1 s"};
	static const char *const parts[] = {"1", "0.1", "0.01", "0.001", "10⁻⁴", "10⁻⁵", "10⁻⁶"};
	double ns = LEAST_NS, beyond = 1;

	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++, ns *= 10)
		fprintf(f,
			"<path d='M%.1f %d V%d' stroke='#ddd'/><text x='%.1f' y='%d' "
			"text-anchor='middle'>%s</text>\n",
			x_of(ns), TOP, HEIGHT - BOTTOM, x_of(ns), HEIGHT - BOTTOM + 18, times[i]);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++, beyond /= 10)
		fprintf(f,
			"<path d='M%d %.1f H%d' stroke='#ddd'/><text x='%d' y='%.1f' "
			"text-anchor='end'>%s</text>\n",
			LEFT, y_of(beyond), WIDTH - RIGHT, LEFT - 6, y_of(beyond) + 4, parts[i]);
	fprintf(f, "<text x='%d' y='%d' text-anchor='middle'>longer than this: which part</text>\n",
		(LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
}

static void draw_line(FILE *f, uint32_t i)
{
	static const char *const colours[] = {"#1b6ca8", "#c8553d", "#588157",
					      "#8f5fa8", "#b08900", "#444"};
	const char *colour = colours[i % (sizeof(colours) / sizeof(*colours))];
	const struct line *l = &lines[i];

	fprintf(f, "<polyline fill='none' stroke='%s' stroke-width='1.5' points='%.1f,%.1f", colour,
		x_of(l->ns[0]), y_of(1));
	for (uint32_t k = 0; k < l->points; k++)
		fprintf(f, " %.1f,%.1f", x_of(l->ns[k]), y_of(l->beyond[k]));
	fprintf(f, "'><title>%s: %llu</title></polyline>\n", l->name, (unsigned long long)l->count);
	fprintf(f, "<text x='%d' y='%u' fill='%s'>%s</text>\n", WIDTH - RIGHT + 10,
		TOP + 14 + 18 * i, colour, l->name);
}

int weft_stream_svg_end(void)
{
	FILE *f;

	if (!svg_path)
		return 0;
	if (!line_count)
		return -ENODATA;
	f = fopen(svg_path, "we");
	if (!f)
		return -errno;
	fprintf(f,
		"<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
		"font-family='sans-serif' font-size='12'>\n<rect width='100%%' height='100%%' "
		"fill='white'/>\n",
		WIDTH, HEIGHT);
	draw_axes(f);
	for (uint32_t i = 0; i < line_count; i++)
		draw_line(f, i);
	fprintf(f, "</svg>\n");
	return weft_stream_finish(f);
}
