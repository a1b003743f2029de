"""Outlines of the heart and of the vessels at it as signed distances (negative inside)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..draws import FloatArray
from .anatomy import Anatomy
from .fields import apart, ellipsoid, half_space, intersection, smooth_path, tube, union, vector

# The frame of the left ventricle: from base to apex (left, forwards, down), from its axis to the right ventricle
# (right, forwards), and across both (down, backwards).
_APEX = vector(0.619, -0.579, -0.530)
_SEPTUM = vector(-0.758, -0.618, -0.209)
_ACROSS = np.cross(_APEX, _SEPTUM)
_FRAME = np.stack([_APEX, _SEPTUM, _ACROSS])
_BASE = vector(18, 8, 5)  # middle of the LV's base

_WALL = 2.0  # between a vessel or an atrium and its neighbour


class HeartShape(NamedTuple):
    """The heart; all arrays are ``(D, W, H)``."""

    pools: dict[str, FloatArray]  # the labelled blood pools
    epi: FloatArray  # LV with its wall
    vessels: dict[str, FloatArray]  # unlabelled blood that goes on from a pool; for the aorta, all of it
    papillary: FloatArray  # papillary muscles
    depth: FloatArray  # distance below the plane of the valves between atria and ventricles


class _Landmarks(NamedTuple):
    """Points ``(3,)`` and paths ``(n, 3)`` in the heart's coordinates."""

    la: FloatArray  # middle of the left atrium
    ra: FloatArray  # middle of the right atrium
    tricuspid: FloatArray  # middle of the tricuspid valve
    aorta: FloatArray  # from the aortic valve to the arch
    trunk: FloatArray  # from the pulmonary valve to the bifurcation
    roof: float  # level where the aorta's label ends: that of the bifurcation


def shape_heart(anatomy: Anatomy, points: FloatArray) -> HeartShape:
    """Compute the outlines of the heart at points ``(3, D, W, H)`` in the heart's coordinates."""
    marks = _landmarks(anatomy)
    depth = half_space(points, _BASE, _APEX)
    lv, epi = _left_ventricle(anatomy, points, marks, depth)
    aorta = apart(_aorta(anatomy, points, marks), epi)
    la = apart(apart(_left_atrium(anatomy, points, marks, depth), lv, epi), aorta, gap=_WALL)
    ra = apart(_right_atrium(anatomy, points, marks, depth), epi, la, aorta, gap=_WALL)
    rv = apart(apart(_right_ventricle(anatomy, points, marks, depth), epi, ra), aorta, gap=_WALL)
    pa = apart(apart(_pulmonary_artery(anatomy, points, marks), rv), epi, la, aorta, gap=_WALL)
    pools = {"LV": lv, "RV": rv, "LA": la, "RA": ra, "AO": aorta, "PA": pa}
    vessels = {
        host: apart(vessel, epi, *(other for name, other in pools.items() if name != host), gap=_WALL)
        for host, vessel in _vessels(anatomy, points, marks).items()
    }
    vessels["AO"], pools["AO"] = aorta, np.maximum(aorta, points[2] - marks.roof)
    return HeartShape(pools, epi, vessels, _papillary_muscles(anatomy, points), depth)


def _place(apex: float, septum: float, across: float) -> FloatArray:
    """Point given in the frame of the left ventricle."""
    return _BASE + np.float32(apex) * _APEX + np.float32(septum) * _SEPTUM + np.float32(across) * _ACROSS


def _landmarks(anatomy: Anatomy) -> _Landmarks:
    """Place the valves, atria and great arteries around the left ventricle."""
    aortic_valve = _place(-4, 0.5 * anatomy.lv_radius, -0.45 * anatomy.lv_radius)
    aorta = np.array([(0, 0, 0), (-6, -2, 12), (-14, 0, 26), (-15, 6, 40), (-9, 17, 53), (5, 32, 60)])
    pulmonary_valve = aortic_valve + vector(10, -12 - 0.75 * anatomy.pa_radius, 13)
    trunk = np.array([(0, 0, 0), (4, 8, 12), (4, 21, 20), (1, 35, 24)])
    la = _place(-19 * anatomy.la_size, 0, 0) + vector(0, 6, -2)
    tricuspid = _place(4, anatomy.epi_radius + 0.42 * anatomy.rv_width, 0)
    return _Landmarks(
        la=la,
        ra=tricuspid - 21 * anatomy.ra_size * _APEX + vector(-6, 2, 2),
        tricuspid=tricuspid,
        aorta=smooth_path(aortic_valve + aorta),
        trunk=smooth_path(pulmonary_valve + trunk),
        roof=float(pulmonary_valve[2] + trunk[-1, 2]),
    )


def _left_ventricle(
    anatomy: Anatomy, points: FloatArray, marks: _Landmarks, depth: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Half ellipsoids of cavity and wall that are open at the base; the cavity has an outflow tract to the aorta."""
    radius, length = anatomy.lv_radius, anatomy.length
    middle, extent = _place(0.12 * length, 0, 0), 0.88 * length
    cavity = ellipsoid(points, middle, vector(extent, radius, radius), _FRAME)
    outflow = np.stack([_place(0.25 * length, 0.25 * radius, -0.2 * radius), marks.aorta[0]])
    cavity = union(intersection(cavity, -depth, 3.0), tube(points, outflow, vector(9, 11)), 5.0)
    outside = vector(extent + 0.8 * anatomy.wall, anatomy.epi_radius, anatomy.epi_radius)
    epi = intersection(ellipsoid(points, middle, outside, _FRAME), -depth, 6.0)
    return np.maximum(cavity, _beyond(points, marks.aorta)), epi


def _right_ventricle(anatomy: Anatomy, points: FloatArray, marks: _Landmarks, depth: FloatArray) -> FloatArray:
    """Ellipsoid that the septum cuts to a crescent; its outflow tract passes in front of the aorta."""
    length, epi_radius, pulmonary_valve = anatomy.length, anatomy.epi_radius, marks.trunk[0]
    radii = vector(0.6 * length, 0.3 * epi_radius + anatomy.rv_width, 0.98 * epi_radius)
    body = ellipsoid(points, _place(0.36 * length, 0.7 * epi_radius, 0), radii, _FRAME)
    body = intersection(body, 4.0 - depth, 3.0)
    body = np.maximum(body, -half_space(points, _place(0, 0.15 * epi_radius, 0), _SEPTUM))  # not behind the LV
    start = _place(0.28 * length, epi_radius + 0.45 * anatomy.rv_width, -10)
    outflow = smooth_path(np.stack([start, 0.5 * (start + pulmonary_valve) + vector(-2, -5, 2), pulmonary_valve]))
    conus = tube(points, outflow, np.linspace(14, anatomy.pa_radius, len(outflow)))
    return np.maximum(union(body, conus, 8.0), _beyond(points, marks.trunk))


def _left_atrium(anatomy: Anatomy, points: FloatArray, marks: _Landmarks, depth: FloatArray) -> FloatArray:
    """Behind and above the left ventricle, open to it at the mitral valve."""
    body = ellipsoid(points, marks.la, anatomy.la_size * vector(28, 19, 22))
    mitral = np.stack([marks.la, _place(2, -0.2 * anatomy.lv_radius, 0.15 * anatomy.lv_radius)])
    return np.maximum(union(body, tube(points, mitral, anatomy.lv_radius * vector(0.7, 0.65)), 8.0), depth)


def _right_atrium(anatomy: Anatomy, points: FloatArray, marks: _Landmarks, depth: FloatArray) -> FloatArray:
    """Behind the right ventricle, to the right of the left atrium, with its appendage in front."""
    body = ellipsoid(points, marks.ra, anatomy.ra_size * vector(23, 22, 27))
    appendage = ellipsoid(points, marks.ra + anatomy.ra_size * vector(8, -18, 14), vector(13, 10, 11))
    valve = tube(points, np.stack([marks.ra, marks.tricuspid + 3 * _APEX]), vector(18, 16))
    return np.maximum(union(union(body, appendage, 8.0), valve, 8.0), depth - 4.0)


def _aorta(anatomy: Anatomy, points: FloatArray, marks: _Landmarks) -> FloatArray:
    """From the aortic root, which is wider, to the arch."""
    radii = anatomy.ao_radius * np.interp(np.linspace(0, 1, len(marks.aorta)), [0, 0.1, 0.2, 1], [0.9, 1.08, 1, 0.9])
    return np.maximum(tube(points, marks.aorta, radii), -_beyond(points, marks.aorta))


def _pulmonary_artery(anatomy: Anatomy, points: FloatArray, marks: _Landmarks) -> FloatArray:
    """The trunk, which crosses the aorta on its left side."""
    radii = anatomy.pa_radius * np.linspace(1.05, 0.95, len(marks.trunk))
    return np.maximum(tube(points, marks.trunk, radii), -_beyond(points, marks.trunk))


def _beyond(points: FloatArray, path: FloatArray) -> FloatArray:
    """Distance beyond the valve at which a path begins."""
    return half_space(points, path[0], path[1] - path[0])


def _vessels(anatomy: Anatomy, points: FloatArray, marks: _Landmarks) -> dict[str, FloatArray]:
    """Branches of the pulmonary artery, pulmonary veins at the left atrium, venae cavae at the right one."""
    fork, la, ra = marks.trunk[-1], marks.la, marks.ra

    def branches(radius: float, taper: float, *courses: list[FloatArray]) -> FloatArray:
        paths = [smooth_path(np.stack(course), 2) for course in courses]
        return np.minimum.reduce([tube(points, path, radius * np.linspace(1, taper, len(path))) for path in paths])

    veins = []
    for side in (-1, 1):
        for level in (-9, 10):
            root = la + anatomy.la_size * vector(side * 20, 6, level)
            veins.append([root, root + vector(side * 16, 6, 0.4 * level), root + vector(side * 38, 12, level)])
    return {
        "PA": branches(
            0.7 * anatomy.pa_radius,
            0.5,
            [fork, fork + vector(15, 15, 2), fork + vector(34, 28, -8)],
            [fork, fork + vector(-17, 13, 0), fork + vector(-40, 15, -4), fork + vector(-64, 18, -12)],
        ),
        "LA": branches(6.5, 0.4, *veins),
        "RA": branches(
            10,
            1.0,
            [ra + vector(2, 4, 18), ra + vector(5, 4, 40), ra + vector(4, 2, 70)],
            [ra + vector(6, 8, -16), ra + vector(9, 13, -34), ra + vector(8, 14, -70)],
        ),
    }


def _papillary_muscles(anatomy: Anatomy, points: FloatArray) -> FloatArray:
    """Two muscles at the free wall of the left ventricle."""
    radius, length = 0.6 * anatomy.lv_radius, anatomy.length
    muscles = []
    for angle in (1.8, 4.2):
        septum, across = radius * np.cos(angle), radius * np.sin(angle)
        ends = np.stack([_place(0.35 * length, 0.85 * septum, 0.85 * across), _place(0.65 * length, septum, across)])
        muscles.append(tube(points, ends, vector(3, 4.5)))
    return np.minimum(*muscles)
