#!/bin/bash
#SBATCH --array=0-9%2
#SBATCH --qos=scavenger
python sweep.py
