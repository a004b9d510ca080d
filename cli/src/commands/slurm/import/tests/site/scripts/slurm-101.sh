#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --licenses=matlab:2
#SBATCH --time=1-00:00:00
python train.py
