"""Workers in other processes and on other machines, by way of Dask, which is imported where it is asked for."""
