/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The ring-imaging detector: photomultipliers on two disks, each of the WEFT_DETECTOR_DISK points of
 * a hexagonal lattice that are nearest to its centre. How they are numbered is Weft's choice. Lengths in mm.
 */
#ifndef WEFT_STREAM_DETECTOR_H
#define WEFT_STREAM_DETECTOR_H

#include <stdint.h>

#define WEFT_DETECTOR_DISK  976u
#define WEFT_DETECTOR_PMTS  (2 * WEFT_DETECTOR_DISK)
#define WEFT_DETECTOR_PITCH 18.0
#define WEFT_DETECTOR_REACH 20 /* points of the lattice from the centre along its axes, and more */

/* Made by weft_detector_init, and constant from then on: any thread. */
struct weft_detector {
	float x[WEFT_DETECTOR_PMTS + 1],
		y[WEFT_DETECTOR_PMTS + 1]; /* by number, which begins at 1 */
	int16_t number[2 * WEFT_DETECTOR_REACH + 1]
		      [2 * WEFT_DETECTOR_REACH + 1]; /* of disk 0, or 0 */
};

void weft_detector_init(struct weft_detector *detector);

/* The number of the photomultiplier on disk 0 in whose cell the point lies; or 0: it lies outside.
 * That on disk 1 is WEFT_DETECTOR_DISK more. */
uint16_t weft_detector_nearest(const struct weft_detector *detector, double x_mm, double y_mm);

#endif
